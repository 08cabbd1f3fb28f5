// Runs the conversations of `protocol/` against MemoryHub, except those that it declares impossible.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Bound, allFixtures } from "./fixture-format.ts";
import { Stage } from "./fixture-stage.ts";

const NO_SCHEMAS = "MemoryHub does not check schemas";

/** Fixtures that MemoryHub cannot hold, by name, with the reason. */
const IMPOSSIBLE: Record<string, string> = {
  "a payload that does not match the schema of its topic is refused with the path and the rule": NO_SCHEMAS,
  "a tombstone passes every schema": NO_SCHEMAS,
  "each event of a batch is checked by itself": NO_SCHEMAS,
  "nothing of an ordered batch is published behind a payload that does not match": NO_SCHEMAS,
  "integers beyond 2^53 are exact": NO_SCHEMAS,
};

const all = allFixtures();

for (const { file, fixtures } of all) {
  describe(`protocol/${file}`, () => {
    for (const fixture of fixtures) {
      const reason = IMPOSSIBLE[fixture.name];
      test(fixture.name, { skip: reason ?? false }, async () => {
        const stage = await Stage.set(fixture);
        for (const [at, step] of fixture.steps.entries()) {
          await stage.act(step).catch((error: unknown) => {
            throw new Error(`step ${at + 1}: ${(error as Error).message}`);
          });
        }
        await stage.end();
      });
    }
  });
}

test("there are fixtures, and the impossible ones are those that exist and need schemas", () => {
  const fixtures = all.flatMap((file) => file.fixtures);
  const names = fixtures.map(({ name }) => name);
  assert.deepEqual(fixtures.filter(({ hub }) => hub?.schemas !== undefined).map(({ name }) => name), Object.keys(IMPOSSIBLE));
  assert.ok(names.length > 100, `${names.length} fixtures were found`);
});

test("every kind of difference is seen", () => {
  const id = "00000000-0000-4000-8000-000000000001";
  const differ = [
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [{ a: [1, 2] }, { a: [1] }],
    [{ a: 1 }, { a: "1" }],
    ["$uuid", "not one"],
    ["$number", "1"],
    ["$text", 1],
    ["$durable", "fsync"],
    ["$no_such", 1],
    [{ $text: ["one", "two"] }, "one"],
    [["$uuid:x", "$uuid:x"], [id, "00000000-0000-4000-8000-000000000002"]],
  ];
  for (const [pattern = null, value = null] of differ) {
    assert.notEqual(new Bound("memory").difference(pattern, value), undefined, JSON.stringify([pattern, value]));
  }
  const bound = new Bound("memory");
  const pattern = { a: ["$uuid:x", "$uuid:x"], b: "$number:n", c: { $text: ["one", "two"] } };
  assert.equal(bound.difference(pattern, { a: [id, id], b: 1, c: "one two" }), undefined);
  assert.deepEqual(bound.fill({ ids: ["$uuid:x"], n: "$number:n" }), { ids: [id], n: 1 });
  assert.deepEqual(bound.fill([{ $repeat: ["ab", 2] }, { $list: [1, 2] }]), ["abab", [1, 1]]);
});
