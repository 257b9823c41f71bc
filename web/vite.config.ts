import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { compressed } from "./scripts/compressed.ts";
import { earlyScript } from "./scripts/early_script.ts";
import { firstView } from "./scripts/first_view.ts";
import { persistedDocuments } from "./scripts/persisted_documents.ts";

const server = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const served = [
  "/graphql",
  "/api",
  "/assets",
  "/sign-in",
  "/sign-out",
  "/password",
  "/activate-token",
  "/reports",
];

export default defineConfig({
  // The server fills in `<base href>`, so every address in the page is relative to it.
  base: "./",
  plugins: [react(), firstView(), earlyScript(), persistedDocuments(), compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  build: {
    target: "es2022",
    // A data: address would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    proxy: Object.fromEntries(served.map((path) => [path, { target: server, ws: path === "/graphql" }])),
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
