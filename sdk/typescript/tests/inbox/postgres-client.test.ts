// Clients of a pool whose connections are lost at a bad moment.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";
import { exactlyOnceTx } from "../../src/inbox/index.ts";
import { postgresInbox, type PostgresInboxClient } from "../../src/inbox/postgres.ts";
import { delivery, quiet } from "./stage.ts";

/** A client that tells what it is asked. Its connection is lost while it is asked for the `lostAt`th time, or at once. */
class FakeClient extends EventEmitter implements PostgresInboxClient {
  readonly asked: string[] = [];
  released: unknown;

  constructor(readonly lostAt: number) {
    super();
  }

  query(text: string): Promise<unknown> {
    this.asked.push(text.split(" ")[0] ?? "");
    if (this.asked.length >= this.lostAt) return Promise.reject(new Error("Connection terminated"));
    return Promise.resolve({ rowCount: 1, command: text });
  }

  release(error?: Error | boolean): void {
    this.released = error;
  }
}

function poolOf(clients: FakeClient[]) {
  return {
    connect(callback: (error: Error | undefined, client: FakeClient | undefined) => void): void {
      const client = clients.shift();
      callback(client ? undefined : new Error("no more clients"), client);
      // In the same packet as the server's greeting, for instance.
      if (client?.lostAt === 0) client.emit("error", new Error("terminating connection"));
    },
    query: () => Promise.reject(new Error("not asked")),
  };
}

test("a connection that is lost at any moment ends no program, and the event is handled with another one", async () => {
  for (const lostAt of [0, 1, 2, 3]) {
    const [first, second] = [new FakeClient(lostAt), new FakeClient(Infinity)];
    const { event, ctx } = delivery();
    let runs = 0;
    await exactlyOnceTx(postgresInbox(poolOf([first, second])), () => runs++, quiet)(event, ctx);
    assert.deepEqual([first.released, second.released], [true, false]);
    assert.deepEqual(second.asked, ["BEGIN", "INSERT", "COMMIT"]);
    assert.equal(second.listenerCount("error"), 0, "the pool listens to clients that are back");
    first.emit("error", new Error("a last word"));
    assert.equal(runs, lostAt === 3 ? 2 : 1);
  }
});

test("a handler whose connection is lost has not failed, whatever it throws; with a connection that is alive it has", async () => {
  for (const [lostAt, text] of [
    [3, undefined],
    [Infinity, /ECONNREFUSED/],
  ] as const) {
    const { event, ctx } = delivery();
    let runs = 0;
    const handler = exactlyOnceTx(postgresInbox(poolOf([new FakeClient(lostAt), new FakeClient(Infinity)])), () => {
      if (runs++ === 0) throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    }, quiet);
    const handled = Promise.resolve(handler(event, ctx));
    if (text === undefined) await handled;
    else await assert.rejects(handled, text);
    assert.equal(runs, text === undefined ? 2 : 1);
  }
});
