// The protocol, as the conversations in `protocol/` have it: the hub in memory holds every one of them.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Bound, allFixtures } from "./fixture-format.ts";
import { Stage } from "./fixture-stage.ts";

/** Fixtures that a hub without a network cannot hold, with the reason. There is none: no fixture is about the transport itself. */
const IMPOSSIBLE: Record<string, string> = {};

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

test("there are fixtures, and those that are declared impossible exist", () => {
  const names = all.flatMap(({ fixtures }) => fixtures.map(({ name }) => name));
  assert.ok(names.length > 100, `${names.length} fixtures were found`);
  for (const name of Object.keys(IMPOSSIBLE)) assert.ok(names.includes(name), name);
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
