// Rows before they are written: what is refused, and what becomes of their payloads.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HubError } from "../../src/errors.ts";
import { bsonOf } from "../../src/outbox/bson.ts";
import { jsonOf } from "../../src/outbox/json.ts";
import { type MongoDatabase, type MongoRow, type MongoSession, mongoOutbox } from "../../src/outbox/mongodb.ts";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import { type OutboxRow, checkedRow } from "../../src/outbox/row.ts";

const good: OutboxRow = { topic: "shop.orders", payload: { order: 17 } };

function refused(code: string, text: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof HubError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, text);
    return true;
  };
}

test("a row that no hub would publish is refused before it is written", () => {
  const bad: [change: object, code: string, text: RegExp][] = [
    [{ topic: "shop..orders" }, "bad_request", /"shop\.\.orders" is not segments/],
    [{ topic: "t".repeat(201) }, "bad_request", /201 bytes; at most 200/],
    [{ topic: 7 }, "bad_request", /topic is number; it must be a string/],
    [{ topic: "dlq.orders" }, "forbidden", /written by the hub alone.*"orders"/],
    [{ payload: undefined }, "bad_request", /payload is undefined.*write null/],
    [{ payload: () => 1 }, "bad_request", /payload is function/],
    [{ payload: { at: { rate: NaN } } }, "bad_request", /number NaN at "rate"/],
    [{ payload: "x".repeat(1024 * 1024) }, "too_large", /1048578 bytes; at most 1048576/],
    [{ payload: JSON.parse("[".repeat(129) + "]".repeat(129)) as unknown }, "bad_request", /nested 129 deep; at most 128/],
    [{ key: "k".repeat(513) }, "bad_request", /key .* 513 bytes; at most 512/],
    [{ key: "a\0b" }, "bad_request", /NUL/],
    [{ key: 7 }, "bad_request", /key is number/],
    [{ headers: { "X-Hub-Derived": "1" } }, "bad_request", /reserved/],
    [{ headers: { a: 1 } }, "bad_request", /header "a" is number/],
    [{ headers: { a: "x".repeat(9000) } }, "bad_request", /9001 bytes/],
    [{ headers: { "a\0": "x" } }, "bad_request", /NUL/],
    [{ headers: 7 }, "bad_request", /headers are no object/],
    [{ id: "17" }, "bad_request", /id is "17"; it must be a UUID/],
    [{ id: 17 }, "bad_request", /id is number/],
    [{ ord: 1.5 }, "bad_request", /ord is 1\.5; it must be an integer/],
    [{ ord: 2 ** 53 }, "bad_request", /ord is 9007199254740992/],
    [{ ord: 2n ** 63n }, "bad_request", /64 bits/],
    [{ ord: "7" }, "bad_request", /ord is 7/],
  ];
  for (const [change, code, text] of bad) {
    assert.throws(() => checkedRow({ ...good, ...change }, {}), refused(code, text), JSON.stringify(Object.keys(change)));
  }
  assert.throws(() => checkedRow({ ...good, payload: "xxx" }, { maxPayload: 4 }), refused("too_large", /5 bytes; at most 4/));
});

test("ids of one process ascend, also within a millisecond", () => {
  const made = Array.from({ length: 1000 }, () => checkedRow(good, {}).id);
  assert.deepEqual(made, [...made].sort());
  assert.equal(new Set(made).size, made.length);
  assert.equal(checkedRow({ ...good, id: "018F4E3A1B2C7D3E8F40112233445566" }, {}).id, "018f4e3a-1b2c-7d3e-8f40-112233445566");
});

test("a payload is the JSON that JSON.stringify writes, and bigints are digits", () => {
  const at = new Date(1_700_000_000_123);
  const values = [null, 0, -0, 1e21, "a \"b\" \ud800", [undefined, () => 1, at], { a: undefined, b: { toJSON: () => 7 }, at }, new Map([[1, 2]]), [new Number(3), Object("s")]];
  for (const value of values) assert.equal(jsonOf(value), JSON.stringify(value));
  assert.equal(jsonOf({ n: 2n ** 70n, list: [-1n] }), '{"n":1180591620717411303424,"list":[-1]}');
  const round: Record<string, unknown> = {};
  round.in = [round];
  assert.throws(() => jsonOf(round), refused("bad_request", /itself in it/));
  const twice = { a: 1 };
  assert.equal(jsonOf([twice, twice]), '[{"a":1},{"a":1}]');
});

test("numbers become what MongoDB can carry exactly, and what it cannot stays text", () => {
  const exact: [json: string, value: unknown][] = [
    ["1", 1],
    ["-2147483647", -2147483647],
    ["2147483648", 2147483648n],
    ["9007199254740993", 9007199254740993n],
    ["-9223372036854775808", -(2n ** 63n)],
    ["100000000000000000000", 1e20],
    ["1.5e300", 1.5e300],
    ['{"a":[{"b":null}]}', { a: [{ b: null }] }],
  ];
  for (const [json, value] of exact) assert.deepEqual(bsonOf(json), { value }, json);
  const inexact = ["9223372036854775809", '{"n":[123456789012345678901]}', '{"a\\u0000":1}', '{"_bsontype":"Long"}', '"\\ud800"', "[".repeat(91) + "]".repeat(91)];
  for (const json of inexact) assert.equal(bsonOf(json), undefined, json);
});

/** A database that keeps what is written. */
function keeping(written: MongoRow[]): MongoDatabase {
  const insertOne = (row: object): Promise<void> => {
    written.push(row as MongoRow);
    return Promise.resolve();
  };
  return { collection: () => ({ insertOne }) };
}

test("a session without a transaction gets no row", async () => {
  const written: MongoRow[] = [];
  const outbox = mongoOutbox(keeping(written));
  const [idle, begun] = [false, true].map((is) => ({ inTransaction: () => is })) as [MongoSession, MongoSession];
  await assert.rejects(outbox.add(idle, good), refused("bad_request", /no transaction.*withTransaction/));
  await assert.rejects(outbox.add(begun, { ...good, topic: "a b" }), refused("bad_request", /"a b"/));
  assert.equal(written.length, 0);
  const id = await outbox.add(begun, good);
  assert.deepEqual(written.map((row) => row._id), [id], "without a class for binary values the id is text");
});

test("a pool, a client without a transaction and a strange table are refused", async () => {
  const query = (): Promise<never> => Promise.reject(new Error("nothing is to be written"));
  const outbox = postgresOutbox();
  await assert.rejects(outbox.add({ query, totalCount: 1 } as { query: typeof query }, good), refused("bad_request", /this is a pool/));
  const idle = { query, getTransactionStatus: () => "I" };
  await assert.rejects(outbox.add(idle, good), refused("bad_request", /BEGIN/));
  for (const table of ["out box", 'a"b', "a.b.c", "", "t".repeat(41)]) {
    assert.throws(() => postgresOutbox({ table }), refused("bad_request", /letters, digits and underscores/), table);
  }
});
