// How the blocks of the pages are run: with the sources of the package, and with a hub in memory or the real one.

import { pathToFileURL } from "node:url";
import { HOME } from "../../tools/declarations.mjs";

export const isReal = process.env["EVENT_HUB_BIN"] !== undefined;
/** The address in the pages. */
export const ADDRESS = "ws://127.0.0.1:8090/";

/** The sources behind the entries of the package. */
function sourceOf(entry: string): string {
  // The entry for Node opens sockets by the package `ws`; the other one by the global WebSocket, in whose place there is the hub in memory.
  if (entry === "") return `${HOME}src/${isReal ? "node" : "index"}.ts`;
  return `${HOME}src${entry}${entry.startsWith("/outbox/") ? "" : "/index"}.ts`;
}

/** The text of a program that imports the sources, and connects to `url`. */
export function sourcesIn(text: string, url: string): string {
  return text
    .replaceAll(/from "event-hub-client([a-z/]*)"/g, (_, entry: string) => `from ${JSON.stringify(pathToFileURL(sourceOf(entry)).href)}`)
    .replaceAll(ADDRESS, url);
}
