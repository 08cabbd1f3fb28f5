// The parts of the hub in memory that stand for something elsewhere: hashes, ids, canonical JSON, patterns, rates.

import assert from "node:assert/strict";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { test } from "node:test";
import { hmacSha256, sha1, sha256 } from "../../src/rules/hash.ts";
import { IdGenerator, derivedId, parseId } from "../../src/rules/ids.ts";
import { Pattern } from "../../src/testing/engine/pattern.ts";
import { canonical } from "../../src/testing/json/canonical.ts";
import { depthOf, membersOf } from "../../src/rules/raw-json.ts";
import { Bucket } from "../../src/testing/session/rate.ts";
import { DueQueue } from "../../src/testing/engine/due.ts";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

test("hashes are those of node:crypto, at every length around a block", () => {
  for (const length of [0, 1, 3, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 1000]) {
    const bytes = randomBytes(length);
    assert.equal(hex(sha1(bytes)), createHash("sha1").update(bytes).digest("hex"), `sha1 of ${length} bytes`);
    assert.equal(hex(sha256(bytes)), createHash("sha256").update(bytes).digest("hex"), `sha256 of ${length} bytes`);
    for (const secret of [randomBytes(7), randomBytes(64), randomBytes(100)]) {
      const expected = createHmac("sha256", secret).update(bytes).digest("hex");
      assert.equal(hex(hmacSha256(secret, bytes)), expected, `hmac of ${length} bytes with ${secret.length}`);
    }
  }
});

test("derived ids are those of hub-proto", () => {
  // Pinned there, too: dead letters depend on them.
  assert.equal(derivedId([]), "6f0a5e94-9556-5a03-9147-aacec5ecd1d7");
  assert.equal(derivedId(["orders", "billing", "7"]), "75d30829-1335-5b1b-b415-de99ec951ddc");
});

test("ids that the hub makes ascend, and carry the time", () => {
  const ids = new IdGenerator();
  const made = [5, 5, 5, 4, 1_700_000_000_123].map((now) => ids.next(now));
  assert.deepEqual(made, [...made].sort());
  assert.match(made.at(-1) ?? "", /^018bcfe5-687b-7/);
  for (const id of made) assert.equal(parseId(id.toUpperCase().replaceAll("-", "")), id);
  assert.equal(parseId("17"), undefined);
  assert.equal(parseId(`{${made[0]}}`), undefined);
});

test("two texts of one JSON value have one canonical text, and nothing is lost to a float", () => {
  const same = [
    ["1", "1.0", "10e-1", "0.1E1", "1e0"],
    ["0", "-0", "0.000", "0e99"],
    ["100", "1e2", "1.00E+2"],
    ['{"a":1,"b":[true,null]}', '{ "b" : [ true , null ] , "a" : 1.0 }'],
    ['"A/"', '"\\u0041\\/"'],
    ["1e1000000000000000000000", "10e999999999999999999999"],
  ];
  for (const texts of same) assert.equal(new Set(texts.map(canonical)).size, 1, texts.join(" "));
  const different = ["9007199254740993", "9007199254740992", "1e400", "1e401", '"1"', "[1]", "[[1]]", '{"a":1}', '{"a":1,"a":1}', '"\\ud800"', '"?"'];
  assert.equal(new Set(different.map(canonical)).size, different.length);
});

test("members of an object are found whatever is in their texts", () => {
  const text = '{"a\\"}{":"]}\\\\","b" : {"c":[1,{"d":"}"}]} , "a":1e3,"":[]}';
  assert.deepEqual(membersOf(text), [
    ['a"}{', '"]}\\\\"'],
    ["b", '{"c":[1,{"d":"}"}]}'],
    ["a", "1e3"],
    ["", "[]"],
  ]);
  assert.deepEqual(membersOf(" { } "), []);
  assert.equal(depthOf(text), 4);
  assert.equal(depthOf('"[[["'), 0);
});

/** All topics of up to four segments of `a`, `b` and a segment that no pattern names. */
function topics(): string[] {
  let longest = [""];
  const all: string[] = [];
  for (let length = 0; length < 4; length += 1) {
    longest = longest.flatMap((start) => ["a", "b", "fresh"].map((segment) => (start === "" ? segment : `${start}.${segment}`)));
    all.push(...longest);
  }
  return all;
}

test("patterns match, contain and intersect as all topics say", () => {
  const segments = ["a", "b", "*", "**"];
  const patterns = [
    ...segments,
    ...segments.flatMap((one) => segments.map((two) => `${one}.${two}`)),
    ...["a.**.b", "**.a.**", "*.**.*", "a.*.**", "**.b.*", "**.a.b", "a.b.**", "*.a.*"],
  ].map((text) => Pattern.parse(text));
  const all = topics();
  const regex = (pattern: Pattern): RegExp => {
    const source = pattern.text.split(".").map((part) => (part === "**" ? "(?:[^.]+\\.)*" : part === "*" ? "[^.]+\\." : `${part}\\.`));
    return new RegExp(`^${source.join("")}$`);
  };
  const matched = new Map(patterns.map((pattern) => [pattern, new Set(all.filter((topic) => regex(pattern).test(`${topic}.`)))]));
  for (const pattern of patterns) {
    for (const topic of all) assert.equal(pattern.matches(topic), matched.get(pattern)?.has(topic), `${pattern.text} and ${topic}`);
    for (const other of patterns) {
      const [ours, theirs] = [matched.get(pattern), matched.get(other)] as [Set<string>, Set<string>];
      const names = `${pattern.text} and ${other.text}`;
      assert.equal(pattern.intersects(other), [...ours].some((topic) => theirs.has(topic)), `intersects: ${names}`);
      assert.equal(pattern.contains(other), [...theirs].every((topic) => ours.has(topic)), `contains: ${names}`);
    }
  }
});

test("a subscription covers derived topics only if its pattern names them", () => {
  const covers = (pattern: string, topic: string): boolean => Pattern.parse(pattern).covers(topic);
  assert.ok(covers("**", "orders"));
  assert.ok(!covers("**", "dlq.orders") && !covers("**", "orders.snapshot"));
  assert.ok(covers("dlq.**", "dlq.orders") && !covers("dlq.**", "dlq.orders.snapshot"));
  assert.ok(covers("**.snapshot", "orders.snapshot") && covers("dlq.**.snapshot", "dlq.orders.snapshot"));
});

test("a bucket holds a second's worth, one by one as well as at once", () => {
  for (const rate of [1, 3, 7, 700, 2_000, 9_999]) {
    const bucket = new Bucket(rate, "it may send");
    for (let count = 0; count < rate; count += 1) {
      assert.equal(bucket.refusal(1, 0), undefined, `${count} of ${rate}`);
      bucket.take(1, 0);
    }
    assert.equal(bucket.refusal(1, 0)?.retryAfterMs, Math.ceil(1000 / rate), `${rate}`);
    assert.equal(bucket.refusal(rate, 1000), undefined);
    assert.match(bucket.refusal(rate + 1, 1000)?.message ?? "", /send smaller batches/);
  }
});

test("what is due comes in the order of time", () => {
  const queue = new DueQueue<number>();
  const times = Array.from({ length: 200 }, (_, at) => (at * 7919) % 101);
  times.forEach((at) => queue.push(at, at));
  const taken = times.map(() => queue.pop());
  assert.deepEqual(taken, times.sort((a, b) => a - b));
  assert.equal(queue.pop(), undefined);
});
