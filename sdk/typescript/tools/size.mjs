// The size of what a page loads: the entry for browsers, bundled and minified, gzipped. Fails if it is over the limit.
import { build } from "esbuild";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";

const MOST_BYTES = 8 * 1024;

const { outputFiles, metafile } = await build({
  absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
  entryPoints: ["src/index.ts"],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  write: false,
});
const [file] = outputFiles;
const bytes = gzipSync(file.contents, { level: 9 }).length;
if (process.argv.includes("--files")) {
  const inputs = Object.entries(Object.values(metafile.outputs)[0].inputs);
  for (const [name, { bytesInOutput }] of inputs.sort(([, a], [, b]) => b.bytesInOutput - a.bytesInOutput)) console.log(`${String(bytesInOutput).padStart(7)} ${name}`);
}
console.log(`${file.contents.length} bytes minified, ${bytes} gzipped (at most ${MOST_BYTES}), ${brotliCompressSync(file.contents).length} with brotli`);
if (bytes > MOST_BYTES) process.exitCode = 1;
