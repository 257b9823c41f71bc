import type { Plugin } from "vite";

/**
 * Puts the modules that the entry imports statically into one chunk, and the stylesheet before the scripts: over
 * HTTP/1.1 each further file of the first view takes its turn at one of six connections.
 */
export function firstView(): Plugin {
  const modules = new Set<string>();
  return {
    name: "galvo-first-view",
    apply: "build",
    config: () => ({
      build: {
        chunkSizeWarningLimit: 600,
        rolldownOptions: {
          output: {
            codeSplitting: {
              groups: [
                { name: "first", test: (id: string) => modules.has(id), priority: 1 },
                // Loaded in idle time, or when the first menu, popover or dialog is opened.
                { name: "popups", test: /node_modules\/(@base-ui|@floating-ui)\// },
                { name: "shared", test: /\/web\/src\//, minShareCount: 5 },
              ],
            },
          },
        },
      },
    }),
    buildEnd() {
      modules.clear();
      const next = [...this.getModuleIds()].filter((id) => this.getModuleInfo(id)?.isEntry);
      for (let id = next.pop(); id !== undefined; id = next.pop()) {
        if (modules.has(id)) continue;
        modules.add(id);
        next.push(...(this.getModuleInfo(id)?.importedIds ?? []));
      }
    },
    transformIndexHtml: {
      order: "post",
      handler(html) {
        const sheets = html.match(/\s*<link rel="stylesheet"[^>]*>/g) ?? [];
        const others = sheets.reduce((text, sheet) => text.replace(sheet, ""), html);
        return others.replace(/\s*<script type="module"/, (script) => sheets.join("") + script);
      },
    },
  };
}
