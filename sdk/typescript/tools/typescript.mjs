// Lets Node run TypeScript: `node --import ./tools/typescript.mjs --test FILE…`. Types are removed by esbuild, file by file; `npm run check` is
// what checks them.
import { transform } from "esbuild";
import { readFile } from "node:fs/promises";
import { register } from "node:module";
import { fileURLToPath } from "node:url";
import { isMainThread } from "node:worker_threads";

// Node runs hooks in a thread of their own, which loads this file a second time.
if (isMainThread) register(import.meta.url);

/** @type {import("node:module").LoadHook} */
export async function load(url, context, next) {
  const loader = /\.(tsx?)(\?|$)/.exec(url)?.[1];
  if (!url.startsWith("file:") || (loader !== "ts" && loader !== "tsx")) return next(url, context);
  const path = fileURLToPath(url);
  const { code } = await transform(await readFile(path, "utf8"), {
    loader,
    format: "esm",
    target: "node20",
    jsx: "automatic",
    sourcemap: "inline",
    sourcefile: path,
  });
  return { format: "module", source: code, shortCircuit: true };
}
