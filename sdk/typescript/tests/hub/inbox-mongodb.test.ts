// Inboxes on a real MongoDB, with a real hub and consumers that are killed.

import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { DatabaseServer, whyNoServer } from "../support/database-server.ts";
import { chain, killsAtEachStep, outage, type Place, twoCopies } from "../support/inbox/suite.ts";

const skip = whyNoServer("mongodb");

/** A server of the test's own. */
async function place(t: TestContext): Promise<Place> {
  const server = await DatabaseServer.start(t, "mongodb");
  return { kind: "mongodb", url: server.url(`sdk-${randomUUID()}`), server };
}

killsAtEachStep("MongoDB", skip, place);
twoCopies("MongoDB", skip, place);
outage("MongoDB", skip, place, async ({ server }) => {
  await server?.kill();
  return async () => server?.run();
});
chain("MongoDB", skip, place);
