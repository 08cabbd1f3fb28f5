import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { uuid5 } from "../../src/consume/uuid5.ts";
import { uuid4, uuid7 } from "../../src/uuid.ts";

test("version 7 has the time in front, and never comes twice", () => {
  const time = Date.UTC(2026, 10, 19);
  const ids = Array.from({ length: 10_000 }, () => uuid7(time));
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(parseInt(id.replace(/-/g, "").slice(0, 12), 16), time);
  }
});

test("version 4 is random, also on pages that have no randomUUID", (t) => {
  const some = (): string[] => Array.from({ length: 1_000 }, uuid4);
  const ids = some();
  Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
  t.after(() => Reflect.deleteProperty(crypto, "randomUUID"));
  ids.push(...some());
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("version 5 is that of the RFC, for names of all lengths", () => {
  const dns = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
  assert.equal(uuid5(dns, "www.example.com"), "2ed6657d-e927-568b-95e1-2665a8aea6a2");
  for (const length of [0, 1, 38, 39, 40, 47, 48, 63, 64, 65, 500]) {
    const name = "ä".repeat(length);
    const hash = createHash("sha1").update(Buffer.from(dns.replace(/-/g, ""), "hex")).update(name).digest();
    hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
    hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
    assert.equal(uuid5(dns, name).replace(/-/g, ""), hash.toString("hex").slice(0, 32));
  }
});
