// Inboxes on a real PostgreSQL, with a real hub and consumers that are killed.

import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import pg from "pg";
import { DatabaseServer, whyNoServer } from "../support/database-server.ts";
import { chain, killsAtEachStep, outage, type Place, twoCopies } from "../support/inbox/suite.ts";

const skip = whyNoServer("postgres");

/** A server of the test's own with a database. */
async function place(t: TestContext): Promise<Place> {
  const server = await DatabaseServer.start(t, "postgres");
  const name = `sdk_${randomUUID().replaceAll("-", "")}`;
  const admin = new pg.Client({ connectionString: server.url("postgres") });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${name}`);
  await admin.end();
  return { kind: "postgres", url: server.url(name), server };
}

killsAtEachStep("PostgreSQL", skip, place);
twoCopies("PostgreSQL", skip, place);
outage("PostgreSQL", skip, place, async ({ server }) => {
  await server?.kill();
  return async () => server?.run();
});
chain("PostgreSQL", skip, place);
