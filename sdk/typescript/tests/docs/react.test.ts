// The components of the pages, rendered in a document: with a hub in memory, or with the real one of EVENT_HUB_BIN.

import "../react/dom.ts";
import assert from "node:assert/strict";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";
import { type ComponentType, createElement } from "react";
import { createRoot } from "react-dom/client";
import { HOME } from "../../tools/declarations.mjs";
import type { HubClient } from "../../src/client.ts";
import { MemoryHub } from "../../src/testing/index.ts";
import { Condition, Hub } from "../support/hub.ts";
import { type Block, blocksOf, PAGES } from "./blocks.ts";
import { isReal, sourcesIn } from "./sources.ts";

/** What a block that is rendered exports, and the client of its prelude. */
interface Module {
  readonly App: ComponentType;
  readonly hub: HubClient;
}

// Components change when the hub says something, as in a page: no test wraps that.
Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: false });

/** The address and the token of a hub, for the client of the page. */
async function startHub(t: TestContext): Promise<string> {
  if (isReal) {
    const hub = await Hub.start(t);
    process.env["TOKEN"] = hub.token();
    return hub.url;
  }
  const hub = new MemoryHub();
  process.env["TOKEN"] = hub.token();
  Object.assign(globalThis, {
    WebSocket: function (url: string) {
      return hub.webSocket(url);
    },
  });
  return hub.url;
}

async function load(t: TestContext, { prelude, code }: Block, url: string): Promise<Module> {
  const directory = await mkdtemp(join(tmpdir(), "event-hub-docs-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await symlink(`${HOME}node_modules`, join(directory, "node_modules"));
  const file = join(directory, "page.tsx");
  await writeFile(file, sourcesIn(`${prelude}${code}export { hub };\n`, url));
  return (await import(pathToFileURL(file).href)) as Module;
}

const blocks = PAGES.flatMap(blocksOf).filter(({ mark }) => mark === "render");

test("the components of the page show what the hub has, and publish", async (t) => {
  assert.equal(blocks.length, 1);
  const { App, hub } = await load(t, blocks[0] as Block, await startHub(t));
  const container = document.createElement("div");
  document.body.append(container);
  const changed = new Condition();
  new window.MutationObserver(() => changed.changed()).observe(container, { childList: true, characterData: true, subtree: true });
  const shows = (html: string): Promise<void> => changed.until(() => container.innerHTML.includes(html));
  const root = createRoot(container);
  t.after(async () => {
    root.unmount();
    await hub.close();
  });

  root.render(createElement(App));
  await shows("<p>ready</p><ul></ul><button>order</button>");
  await hub.publish("prices", 3, { key: "tea" });
  await hub.publish("prices", 4, { key: "tea" });
  await hub.publish("prices", 7, { key: "coffee" });
  await shows("<li>tea: 4</li><li>coffee: 7</li>");
  await hub.publish("prices", null, { key: "tea" });
  await shows("<ul><li>coffee: 7</li></ul>");
  await hub.publish("orders.paid", { id: 17, amount: 3 });
  await shows("<p>17</p><button>");
  container.querySelector("button")?.click();
  await shows("<p>17</p><p>1</p><button>");
});
