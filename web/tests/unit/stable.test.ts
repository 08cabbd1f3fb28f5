import assert from "node:assert/strict";
import { test } from "node:test";
import { updatedInPlace } from "../../src/lib/stable.ts";

type Row = Readonly<{ name: string; n: number }>;
const id = (row: Row) => row.name;
const rows = (...names: string[]): Row[] => names.map((name, n) => ({ name, n }));

test("rows keep their places and take the newest values", () => {
  assert.deepEqual(updatedInPlace(rows("a", "b"), rows("b", "a"), id), [{ name: "a", n: 1 }, { name: "b", n: 0 }]);
});

test("a row that is gone stays as it was, and a new one waits", () => {
  assert.deepEqual(updatedInPlace(rows("a", "b"), [{ name: "c", n: 7 }, { name: "b", n: 9 }], id), [{ name: "a", n: 0 }, { name: "b", n: 9 }]);
});
