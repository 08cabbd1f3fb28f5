// What a page loads, minified and gzipped: first the client with its connection and its watchers, then what publishes and what members of groups
// need. Fails if the first part is over the limit, or both together.
import { build } from "esbuild";
import { basename } from "node:path";
import { gzipSync } from "node:zlib";
import { bundleForPages, HOW } from "./bundle.mjs";

const MOST_AT_FIRST = 8 * 1024;
const MOST_IN_ALL = 18 * 1024;
/** What React's part adds to a page that has the client. */
const MOST_OF_REACT = 1024;

const { outputFiles, metafile } = await bundleForPages();
const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
const sizes = new Map(outputFiles.map((file) => [basename(file.path), gzipSync(file.contents, { level: 9 }).length]));

/** A file and all that it imports at once. */
function closure(name, into = new Set()) {
  if (into.has(name)) return into;
  into.add(name);
  for (const { path, kind } of outputs.get(name).imports) if (kind === "import-statement") closure(basename(path), into);
  return into;
}
const sum = (names) => [...names].reduce((total, name) => total + sizes.get(name), 0);
const show = (what, bytes, most) => console.log(`${what.padEnd(28)} ${String(bytes).padStart(6)} bytes gzipped${most === undefined ? "" : `, at most ${most}`}`);

const first = closure("index.js");
show("at first", sum(first), MOST_AT_FIRST);
for (const { path, kind } of outputs.get("index.js").imports) {
  if (kind !== "dynamic-import") continue;
  const more = [...closure(basename(path))].filter((name) => !first.has(name));
  show(basename(path).split("-")[0], sum(more));
}
show("in all", sum(sizes.keys()), MOST_IN_ALL);

/** One file of these entries. */
async function together(...entries) {
  const contents = entries.map((entry) => `export * from "./src/${entry}";`).join("\n");
  const { outputFiles } = await build({ ...HOW, stdin: { contents, resolveDir: HOW.absWorkingDir }, write: false });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}
const react = (await together("index.ts", "react/index.ts")) - (await together("index.ts"));
show("with react", react, MOST_OF_REACT);
if (process.argv.includes("--files")) {
  for (const [name, output] of outputs) for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) console.log(`${String(bytesInOutput).padStart(7)} ${name} ${input}`);
}
if (sum(first) > MOST_AT_FIRST || sum(sizes.keys()) > MOST_IN_ALL || react > MOST_OF_REACT) {
  console.error("the client is too large; `node tools/size.mjs --files` shows what is in it");
  process.exitCode = 1;
}
