import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compressed } from "./scripts/compressed.ts";

// A build of its own: chunks that both pages shared would count towards the dashboard's budget.
export default defineConfig({
  base: "./",
  plugins: [react(), compressed()],
  build: {
    target: "es2022",
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: "graphiql.html",
      // The React compiler's runtime has a directive for the compiler, which is without effect in a bundle.
      onwarn(warning, warn) {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
      output: {
        codeSplitting: false,
        entryFileNames: "assets/graphiql-[hash].js",
        assetFileNames: "assets/graphiql-[hash][extname]",
      },
    },
  },
});
