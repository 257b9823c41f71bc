import type { CodegenConfig } from "@graphql-codegen/cli";

// The documents stay out of the bundle: a request names its document by hash, and the server knows the
// documents of `persisted-documents.json`.
const config: CodegenConfig = {
  schema: "../schema.graphql",
  documents: "src/**/*.graphql",
  generates: {
    "src/data/gql/": {
      preset: "client",
      presetConfig: {
        fragmentMasking: false,
        persistedDocuments: { mode: "replaceDocumentWithHash", hashAlgorithm: "sha256" },
      },
      config: {
        documentMode: "string",
        enumsAsTypes: true,
        useTypeImports: true,
        strictScalars: true,
        scalars: {
          ID: "string",
          BigInt: "number",
          Date: "string",
          DateTime: "string",
          JSON: "unknown",
        },
      },
    },
  },
};

export default config;
