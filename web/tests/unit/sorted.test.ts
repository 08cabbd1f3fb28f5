import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrder, SortedList } from "../../src/lib/sorted.ts";

type Row = Readonly<{ name: string; rate: number }>;

const BY_NAME = { name: "name", key: (row: Row) => row.name, descending: false };
const BY_RATE = { name: "rate", key: (row: Row) => row.rate, descending: true };

function listOf(...rows: Row[]): SortedList<Row> {
  const list = new SortedList<Row>();
  for (const row of rows) list.put(row.name, row);
  return list;
}

test("rows are sorted by the key, then by their ids", () => {
  const list = listOf({ name: "c", rate: 1 }, { name: "a", rate: 1 }, { name: "b", rate: 2 });
  assert.deepEqual(list.listing(BY_NAME, undefined).ids, ["a", "b", "c"]);
  assert.deepEqual(list.listing(BY_RATE, undefined).ids, ["b", "a", "c"]);
  assert.deepEqual(list.listing({ ...BY_RATE, descending: false }, undefined).ids, ["a", "c", "b"]);
});

test("without a change the list is the same one", () => {
  const list = listOf({ name: "a", rate: 1 });
  assert.equal(list.listing(BY_NAME, undefined).ids, list.listing({ ...BY_NAME }, undefined).ids);
});

test("a filter leaves the order as it is", () => {
  const list = listOf({ name: "c", rate: 3 }, { name: "a", rate: 1 }, { name: "b", rate: 2 });
  const busy = { name: "busy", matches: (row: Row) => row.rate > 1 };
  assert.deepEqual(list.listing(BY_NAME, busy).ids, ["b", "c"]);
  list.put("a", { name: "a", rate: 9 });
  assert.deepEqual(list.listing(BY_NAME, busy).ids, ["a", "b", "c"]);
  assert.deepEqual(list.listing(BY_NAME, undefined).ids, ["a", "b", "c"]);
});

test("a filter looks at the rows that changed, and at all when it changes itself", () => {
  const list = listOf({ name: "a", rate: 1 }, { name: "b", rate: 2 });
  const asked: string[] = [];
  const filter = (name: string) => ({ name, matches: (row: Row) => asked.push(row.name) > 0 });
  list.listing(BY_NAME, filter("one"));
  list.put("a", { name: "a", rate: 7 });
  list.listing(BY_NAME, filter("one"));
  assert.deepEqual(asked, ["a", "b", "a"]);
  list.listing(BY_NAME, filter("two"));
  assert.deepEqual(asked, ["a", "b", "a", "a", "b"]);
});

test("after any changes the list is what sorting everything gives", () => {
  let seed = 7;
  const random = (most: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % most;
  };
  const list = new SortedList<Row>();
  for (let round = 0; round < 200; round += 1) {
    for (let n = random(20); n >= 0; n -= 1) {
      const name = `t${random(60)}`;
      if (random(4) === 0) list.delete(name);
      else list.put(name, { name, rate: random(5) });
    }
    const order = round % 50 < 25 ? BY_RATE : BY_NAME;
    const fresh = listOf(...list.rows.values());
    assert.deepEqual(list.listing(order, undefined).ids, fresh.listing(order, undefined).ids, `round ${round}`);
  }
});

test("rows that are gone leave the list, and come back to their place", () => {
  const list = listOf({ name: "a", rate: 1 }, { name: "b", rate: 2 });
  list.listing(BY_NAME, undefined);
  list.delete("a");
  assert.deepEqual(list.listing(BY_NAME, undefined).ids, ["b"]);
  list.put("a", { name: "a", rate: 1 });
  assert.deepEqual(list.listing(BY_NAME, undefined).ids, ["a", "b"]);
});

test("a listing gives the rows as they are now", () => {
  const list = listOf({ name: "a", rate: 1 });
  const { get } = list.listing(BY_NAME, undefined);
  list.put("a", { name: "a", rate: 5 });
  assert.equal(get("a")?.rate, 5);
  const fixed = inOrder([{ name: "b", rate: 1 }, { name: "a", rate: 2 }], (row) => row.name);
  assert.deepEqual(fixed.ids, ["b", "a"]);
  assert.equal(fixed.get("a")?.rate, 2);
});
