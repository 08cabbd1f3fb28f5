// What the sources must not contain: every value of an event is hostile, so text gets into the page as text nodes only.
import { readdir, readFile } from "node:fs/promises";

const src = new URL("../src/", import.meta.url);
const BANNED = [
  [/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write/, "markup from strings"],
  [/\beval\(|new Function\(/, "code from strings"],
  [/href=\{(?!link\(|to\()/, "an href that is not made by link() or to()"],
  [/localStorage|document\.cookie/, "storage that outlives the tab"],
  [/:\s*any\b|as any\b|@ts-ignore|@ts-expect-error/, "untyped code"],
  [/https?:\/\/(?!127\.0\.0\.1|www\.w3\.org\/2000\/svg)/, "an address outside the hub"],
];

let found = 0;
for (const entry of await readdir(src, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !/\.(tsx?|css|html)$/.test(entry.name)) continue;
  const path = `${entry.parentPath}/${entry.name}`;
  const lines = (await readFile(path, "utf8")).split("\n");
  lines.forEach((line, index) => {
    if (/^\s*(\/\/|\*|\/\*)/.test(line)) return;
    for (const [pattern, what] of BANNED) {
      if (pattern.test(line)) {
        found += 1;
        console.error(`${path}:${index + 1}: ${what}: ${line.trim()}`);
      }
    }
  });
}
process.exitCode = found > 0 ? 1 : 0;
