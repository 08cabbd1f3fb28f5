import assert from "node:assert/strict";
import { test } from "node:test";
import { IndentedLines, indentedLines, Rows } from "../../src/lib/lines.ts";

const all = (rows: Rows) => Array.from({ length: rows.count }, (_, row) => rows.row(row));

test("a line is the same whenever it is asked for", () => {
  const text = '{"a" : [1, {"b":"x, {y}"}],\n "c":[ ]}';
  const lines = new IndentedLines(text);
  assert.deepEqual(indentedLines(text), ["{", '  "a": [', "    1,", "    {", '      "b": "x, {y}"', "    }", "  ],", '  "c": []', "}"]);
  for (const n of [8, 0, 4]) assert.equal(lines.line(n), indentedLines(text)[n]);
});

test("short lines are one row each", () => {
  const text = '{"a":1,"b":[2,3]}';
  assert.deepEqual(all(new Rows(text, 100)), indentedLines(text));
});

test("a long line goes on in further rows, and those behind it follow", () => {
  const text = '{"a":"xxxxxxxxxxxxxxxxxxxx","b":1,"c":"yyyyyyyyyyyyyyyy","d":2}';
  assert.deepEqual(all(new Rows(text, 10)), ["{", '  "a": "xx', "↪ xxxxxxxxxx", "↪ xxxxxxxx\",", '  "b": 1,', '  "c": "yy', "↪ yyyyyyyyyy", '↪ yyyy",', '  "d": 2', "}"]);
});

test("the rows of a line that is all of the text are all of the text", () => {
  const text = JSON.stringify("z".repeat(2_500));
  const rows = all(new Rows(text, 1_000));
  assert.equal(rows.length, 3);
  assert.equal(rows.map((row) => row.replace("↪ ", "")).join(""), text);
});
