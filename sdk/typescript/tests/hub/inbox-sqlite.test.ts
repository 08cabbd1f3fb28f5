// Inboxes in files of SQLite, with a real hub and consumers that are killed; with drivers of both shapes.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { DatabaseSync } from "@photostructure/sqlite";
import type { BaseKind } from "../support/inbox/bases.ts";
import { chain, killsAtEachStep, outage, type Place, twoCopies } from "../support/inbox/suite.ts";

const placeFor =
  (kind: BaseKind) =>
  async (t: TestContext): Promise<Place> => {
    const directory = await mkdtemp(join(tmpdir(), "event-hub-sqlite-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    return { kind, url: `sqlite:${join(directory, "shop.db")}` };
  };

killsAtEachStep("SQLite", false, placeFor("sqlite"));
killsAtEachStep("SQLite as in Node", false, placeFor("node-sqlite"));
twoCopies("SQLite", false, placeFor("sqlite"));
outage("SQLite", false, placeFor("node-sqlite"), ({ url }) => {
  // Another writer, who takes longer than the leases.
  const database = new DatabaseSync(url.replace(/^sqlite:/, ""));
  database.exec("BEGIN IMMEDIATE");
  return Promise.resolve(() => {
    database.exec("COMMIT");
    database.close();
    return Promise.resolve();
  });
});
chain("SQLite", false, placeFor("sqlite"));
chain("SQLite as in Node", false, placeFor("node-sqlite"));
