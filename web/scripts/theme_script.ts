import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const source = new URL("../src/style/theme.js", import.meta.url);

/** Adds a classic script that sets the chosen theme before the first paint. */
export function themeScript(): Plugin {
  const code = readFileSync(source, "utf8").replace(/^\/\/.*\n/gm, "");
  const name = `assets/theme-${createHash("sha256").update(code).digest("hex").slice(0, 8)}.js`;
  return {
    name: "galvo-theme-script",
    transformIndexHtml: {
      order: "post",
      handler: (html, context) => {
        const source = context.server ? "/src/style/theme.js" : `./${name}`;
        // Behind `<base>`, and before the other scripts and the stylesheet.
        return html.replace("</title>", `</title>\n    <script src="${source}"></script>`);
      },
    },
    generateBundle() {
      this.emitFile({ type: "asset", fileName: name, source: code });
    },
  };
}
