import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const compressible = /\.(js|css|html|svg|json)$/;

/** Writes `.br` and `.gz` beside each compressible file of the build, so that the server compresses nothing. */
export function compressed(): Plugin {
  return {
    name: "galvo-compressed",
    apply: "build",
    writeBundle({ dir }, bundle) {
      if (!dir) throw new Error("the build has no directory");
      for (const name of Object.keys(bundle)) {
        if (!compressible.test(name)) continue;
        const path = join(dir, name);
        const bytes = readFileSync(path);
        const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
        writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: quality }));
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}
