// What axe-core finds wrong with a page. It runs in a world of its own beside the page's code, because the page's policy allows no other script.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Viewer } from "./viewer.ts";

const source = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

type Found = Readonly<{ id: string; impact: string; help: string; nodes: readonly Readonly<{ target: readonly string[]; html: string; failureSummary: string }>[] }>;

/** The serious and critical findings, each as a text for a person. */
export async function axe(viewer: Viewer): Promise<string[]> {
  const session = await viewer.session();
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  await session.send("Runtime.evaluate", { contextId, expression: await source });
  const expression = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => JSON.stringify(violations))`;
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", { contextId, expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails !== undefined) throw new Error(`axe failed: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
  const found = JSON.parse(String(result.value)) as Found[];
  return found
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) => nodes.slice(0, 5).map((node) => `${id}: ${help}: ${node.target.join(" ")}: ${node.html.slice(0, 200)}: ${node.failureSummary.replace(/\s+/g, " ")}`));
}
