// Builds `dist/`, which is committed and compiled into the hub. `--check` builds into memory and says what differs.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const root = new URL("..", import.meta.url);
const check = process.argv.includes("--check");
/** All files together, gzipped. */
const MOST_BYTES = 100 * 1024;

const result = await build({
  absWorkingDir: root.pathname,
  entryPoints: { app: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome120", "firefox121", "safari17.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  write: false,
  logLevel: "warning",
});
const files = new Map(result.outputFiles.map((file) => [file.path.split("/").at(-1), Buffer.from(file.contents)]));
for (const name of ["index.html", "favicon.svg"]) {
  files.set(name, await readFile(new URL(`src/${name}`, root)));
}

let total = 0;
const stale = [];
for (const [name, bytes] of files) {
  const gzipped = gzipSync(bytes, { level: 9 }).length;
  total += gzipped;
  console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(8)} bytes ${String(gzipped).padStart(7)} gzipped`);
  const path = new URL(`dist/${name}`, root);
  if (check) {
    const committed = await readFile(path).catch(() => undefined);
    if (!committed?.equals(bytes)) stale.push(name);
  } else {
    await mkdir(new URL("dist/", root), { recursive: true });
    await writeFile(path, bytes);
  }
}
console.log(`${"all".padEnd(12)} ${String(total).padStart(30)} gzipped, at most ${MOST_BYTES}`);
if (stale.length > 0) {
  console.error(`dist/ is not what the sources make: ${stale.join(", ")}; run \`npm run build\` in web/ and commit it`);
  process.exitCode = 1;
}
if (total > MOST_BYTES) {
  console.error(`the dashboard has ${total} bytes gzipped; at most ${MOST_BYTES} are allowed`);
  process.exitCode = 1;
}
