import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plugin, Rolldown } from "vite";

const source = new URL("../src/early.js", import.meta.url);

/** The modules of the pages, by the part of the address behind the account. A slash at its end stands for an item. */
const PAGES = {
  "": ["overview.tsx"],
  clusters: ["clusters.tsx"],
  "clusters/": ["cluster/cluster.tsx", "cluster/tab.tsx"],
  compare: ["compare.tsx"],
  errors: ["errors.tsx"],
  "errors/": ["error_group.tsx"],
};

/** The entry as Vite writes it. */
const ENTRY = /<script type="module" crossorigin src="([^"]+)"><\/script>/;

/**
 * Adds the script that runs before the first paint, with the names of the files of each page. The script starts the
 * app, so that only the download of the app begins before the first paint.
 */
export function earlyScript(): Plugin {
  const code = readFileSync(source, "utf8").replace(/^\s*\/\/.*\n|^\s+/gm, "");
  const name = `assets/early-${createHash("sha256").update(code).digest("hex").slice(0, 8)}.js`;
  return {
    name: "galvo-early-script",
    transformIndexHtml: {
      order: "post",
      handler: (html, { server, bundle }) => {
        // Behind `<base>`, and before the other scripts and the stylesheet.
        const withScript = (text: string, attributes: string) =>
          text.replace("</title>", `</title>\n    <script ${attributes}></script>`);
        if (server || !bundle) return withScript(html, 'src="/src/early.js"');
        const app = html.match(ENTRY)?.[1];
        if (!app) throw new Error("index.html has no entry");
        const preloaded = html.replace(ENTRY, `<link rel="modulepreload" crossorigin href="${app}">`);
        const pages = JSON.stringify(filesOfPages(bundle));
        return withScript(preloaded, `src="./${name}" data-app="${app}" data-pages='${pages}'`);
      },
    },
    generateBundle() {
      this.emitFile({ type: "asset", fileName: name, source: code });
    },
  };
}

function filesOfPages(bundle: Rolldown.OutputBundle): Record<string, string[]> {
  const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
  const first = new Set(chunks.filter(({ isEntry }) => isEntry).flatMap((entry) => filesOf(entry, bundle)));
  const ofModule = (module: string) => {
    const chunk = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith(`/src/routes/${module}`));
    if (!chunk) throw new Error(`no chunk begins with ${module}`);
    return filesOf(chunk, bundle);
  };
  const ofPage = (modules: string[]) =>
    [...new Set(modules.flatMap(ofModule))].filter((file) => !first.has(file)).map((file) => `./${file}`);
  return Object.fromEntries(Object.entries(PAGES).map(([page, modules]) => [page, ofPage(modules)]));
}

/** Returns a chunk's own file, and those of its imports and styles. */
function filesOf(chunk: Rolldown.OutputChunk, bundle: Rolldown.OutputBundle, known = new Set<string>()) {
  if (known.has(chunk.fileName)) return [];
  known.add(chunk.fileName);
  const files = [chunk.fileName, ...(chunk.viteMetadata?.importedCss ?? [])];
  for (const name of chunk.imports) {
    const imported = bundle[name];
    if (imported?.type === "chunk") files.push(...filesOf(imported, bundle, known));
  }
  return files;
}
