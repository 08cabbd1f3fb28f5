// The client as a page loads it: `index.js` at first, and beside it the chunks that it imports when they are used for the first time.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

export const HOW = {
  absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  external: ["react"],
};

export function bundleForPages() {
  return build({ ...HOW, entryPoints: ["src/index.ts"], splitting: true, metafile: true, outdir: "dist", write: false });
}
