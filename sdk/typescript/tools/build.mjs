// Builds `dist/`: every file of `src/` by itself, as an ES module and as a CommonJS module, and its types. Entries share files, so that a class
// is the same whichever entry it is imported from. Bundling and minifying is left to those who bundle.
//
// With a directory as its argument it builds `dist/` there, so that a test that packs the package shares no files with another one.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = new URL("..", import.meta.url);
const home = fileURLToPath(root);
const target = resolve(process.argv[2] ?? home);
const dist = new URL("dist/", `${pathToFileURL(target).href}/`);
const RELATIVE = /^\.\.?\//;

const sources = (await readdir(new URL("src/", root), { recursive: true }))
  .filter((name) => /\.tsx?$/.test(name))
  .sort()
  .map((name) => `src/${name}`);
await rm(dist, { recursive: true, force: true });

for (const [format, extension] of [["esm", ".mjs"], ["cjs", ".cjs"]]) {
  await build({
    absWorkingDir: home,
    entryPoints: sources,
    outdir: `${fileURLToPath(dist)}${format}`,
    outbase: "src",
    outExtension: { ".js": extension },
    bundle: true,
    packages: "external",
    format,
    target: "es2022",
    jsx: "automatic",
    logLevel: "warning",
    plugins: [
      {
        // A file is bundled with nothing: what it imports stays where it is, under its new name.
        name: "keep files apart",
        setup({ onResolve }) {
          onResolve({ filter: RELATIVE }, ({ path, kind }) =>
            kind === "entry-point" ? undefined : { path: path.replace(/\.tsx?$/, extension), external: true },
          );
        },
      },
    ],
  });
}

const types = new URL("types/", dist);
execFileSync("node", ["node_modules/typescript/bin/tsc", "-p", "tools/tsconfig.types.json", "--outDir", fileURLToPath(types)], { cwd: home, stdio: "inherit" });
for (const name of await readdir(types, { recursive: true })) {
  if (!name.endsWith(".d.ts")) continue;
  const text = await readFile(new URL(name, types), "utf8");
  for (const [format, letter] of [["esm", "m"], ["cjs", "c"]]) {
    const to = new URL(`${format}/${name.replace(/\.d\.ts$/, `.d.${letter}ts`)}`, dist);
    await mkdir(new URL(".", to), { recursive: true });
    await writeFile(to, text.replace(/((?:from|import\(?)\s*["']\.\.?\/[^"']*?)\.tsx?(["'])/g, `$1.${letter}js$2`));
  }
}
await rm(types, { recursive: true });
for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) await cp(new URL(`../../${name}`, root), new URL(name, dist));
