import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const documents = new URL("../src/data/gql/persisted-documents.json", import.meta.url);

/** Copies the documents, by their SHA-256, beside the page: the server reads them when it is built. */
export function persistedDocuments(): Plugin {
  return {
    name: "galvo-persisted-documents",
    generateBundle() {
      this.emitFile({
        type: "asset",
        fileName: "persisted-documents.json",
        source: readFileSync(documents, "utf8"),
      });
    },
  };
}
