// The controls of a hub in memory, and what its sessions do where the fixtures are silent.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { MemoryHub } from "../../src/testing/index.ts";
import { FrameClient } from "./frames.ts";

const MEMBER = "0b6f2c1e-8d4a-4f7b-9c3d-5e6f7a8b9c0d";

test("time is real unless a test asks for its own", async () => {
  const hub = new MemoryHub();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { ackTimeoutMs: 20 });
  hub.publish("orders", 1);
  const attempts: number[] = [];
  await new Promise<void>((resolve) => {
    client.socket.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(String(data)) as { ctx?: { attempt: number } };
      if (frame.ctx) attempts.push(frame.ctx.attempt);
      if (attempts.length === 2) resolve();
    });
  });
  assert.deepEqual(attempts, [1, 2]);
  await assert.rejects(hub.advance(1), /clock: "manual"/);
});

test("a hub that stops says so, gives leases back without a failure, and takes connections when it starts again", async () => {
  const hub = new MemoryHub({ clock: "manual" });
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { maxAttempts: 1, member: MEMBER });
  const { id } = hub.publish("orders", 1);
  await hub.idle();
  client.send({ op: "ACK", topic: "orders", group: "g", id, corr: "a" });
  hub.publish("orders", 2);
  await hub.stop();
  assert.equal(client.closed, 1012);
  const frames = await client.frames();
  assert.ok(frames.some(({ op, corr }) => op === "OK" && corr === "a"), "what was sent before is answered");
  assert.equal((await FrameClient.stranger(hub)).closed, 1006);
  hub.start();
  const again = await FrameClient.connect(hub);
  await again.subscribe("orders", "g");
  assert.deepEqual(await again.payloads(), ["2/2"]);
  assert.deepEqual(hub.deadLetters("orders"), []);
});

test("a hub that is killed closes nothing properly, and blames nobody", async () => {
  const hub = new MemoryHub({ clock: "manual" });
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g", { maxAttempts: 1 });
  hub.publish("orders", 1);
  await hub.idle();
  await hub.stop({ abruptly: true });
  assert.equal(client.closed, 1006);
  hub.start();
  assert.deepEqual(hub.deadLetters("orders"), []);
});

test("what is on the way is lost when a connection is cut", async () => {
  const hub = new MemoryHub({ clock: "manual" });
  const client = await FrameClient.connect(hub, { sub: "ada", scopes: ["*:**"] });
  const other = await FrameClient.connect(hub, { sub: "bob", scopes: ["*:**"] });
  client.send({ op: "PUBLISH", topic: "orders", payload: "lost" });
  assert.equal(hub.drop({ sub: "ada" }), 1);
  await hub.idle();
  assert.deepEqual([client.closed, other.closed, hub.connections], [1006, undefined, 1]);
  assert.deepEqual(hub.events("orders"), []);
});

test("a publish fails as a test asks, and one that was stored all the same is a duplicate when it comes again", async () => {
  const hub = new MemoryHub();
  const client = await FrameClient.connect(hub);
  hub.fail("rate_limited", { topic: "orders", retryAfterMs: 70, times: 2 });
  hub.fail("unavailable", { stored: true });
  const publish = { op: "PUBLISH", topic: "orders", payload: 1, opts: { id: MEMBER } };
  for (const attempt of [1, 2]) {
    const limited = await client.ask(publish);
    assert.deepEqual([limited.code, limited.retry_after_ms, limited.id], ["rate_limited", 70, MEMBER], `${attempt}`);
  }
  const unknown = await client.ask(publish);
  assert.deepEqual([unknown.code, unknown.id], ["unavailable", MEMBER]);
  const again = await client.ask(publish);
  assert.deepEqual([again.seq, again.duplicate], [1, true]);
});

test("settled waits for the group, and says what is open if it takes too long", async () => {
  const hub = new MemoryHub();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g");
  const { id } = hub.publish("orders", 1);
  await hub.idle();
  await assert.rejects(hub.settled("orders", "g", { timeoutMs: 1 }), /1 are open: 1 events are with 1 consumers, 0 wait/);
  await assert.rejects(hub.settled("orders", "h", { timeoutMs: 1 }), /no such group/);
  const settled = hub.settled("orders", "g");
  client.send({ op: "ACK", topic: "orders", group: "g", id });
  await settled;
});

test("a token that another program has signed with the hub's secret counts", async () => {
  const secret = "a secret of a test, longer than thirty-two bytes";
  const hub = new MemoryHub({ secret });
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Math.floor(Date.now() / 1000) + 60;
  const signed = `${part({ alg: "HS256" })}.${part({ sub: "ä", exp, scope: "openid publish:orders" })}`;
  const token = `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
  const client = await FrameClient.stranger(hub);
  const answer = await client.ask({ op: "AUTH", token });
  assert.deepEqual(answer, { op: "OK", corr: answer.corr, sub: "ä", exp, features: ["ordered", "ping", "return", "member", "coalesce"] });
  assert.equal((await client.ask({ op: "PUBLISH", topic: "orders", payload: 1 })).op, "OK");
  assert.equal((await client.ask({ op: "PUBLISH", topic: "other", payload: 1 })).code, "forbidden");
  const none = await FrameClient.stranger(hub);
  const unsigned = `${part({ alg: "none" })}.${part({ exp })}.`;
  assert.match((await none.ask({ op: "AUTH", token: unsigned })).msg ?? "", /alg is none/);
});

test("numbers of a payload come back digit by digit", async () => {
  const hub = new MemoryHub();
  const client = await FrameClient.connect(hub);
  await client.subscribe("orders", "g");
  client.socket.send('{"op":"PUBLISH","topic":"orders","payload":{"n":9007199254740993, "x":1.50},"corr":"p"}');
  await hub.idle();
  assert.ok(client.texts.some((text) => text.includes('"payload":{"n":9007199254740993, "x":1.50}')), client.texts.join("\n"));
});

test("a reader that falls behind what is kept in memory is told how much it missed", async () => {
  const hub = new MemoryHub({ limits: { tailBytes: 100 } });
  const client = await FrameClient.connect(hub);
  await client.subscribe("news");
  await client.subscribe("news.*", undefined, { coalesce: true });
  hub.publish("news", "first");
  hub.publish("news.a", 0, { key: "k" });
  assert.deepEqual(await client.payloads(), ['"first"', "0"]);
  for (const paused of ["news", "news.*"]) await client.ask({ op: "PAUSE", topic: paused });
  for (let n = 0; n < 1001; n += 1) hub.publish("news", n);
  for (let n = 1; n < 1100; n += 1) hub.publish("news.a", n, { key: "k" });
  await client.ask({ op: "RESUME", topic: "news" });
  assert.deepEqual(await client.frames(), [{ op: "LAGGED", topic: "news", missed: 1001 }]);
  await client.ask({ op: "RESUME", topic: "news.*" });
  assert.deepEqual(await client.payloads(), ["1099"], "a reader that coalesces misses nothing");
  hub.publish("news", "next");
  assert.deepEqual(await client.payloads(), ['"next"']);
});

test("a flood that goes on in spite of rate_limited ends the connection", async () => {
  const hub = new MemoryHub({ clock: "manual", limits: { connectionRate: 1 } });
  const client = await FrameClient.connect(hub);
  const publish = JSON.stringify({ op: "PUBLISH", topic: "orders", payload: 1 });
  for (let round = 0; round < 2; round += 1) {
    for (let n = 0; n < 1100; n += 1) client.socket.send(publish);
    await hub.advance(1_001);
  }
  assert.equal(client.closed, 1008);
});

test("after a large frame that was refused for its rate nothing is read for a while", async () => {
  const hub = new MemoryHub({ clock: "manual", limits: { connectionRate: 2 } });
  const client = await FrameClient.connect(hub);
  await hub.advance(1000);
  for (let n = 0; n < 2; n += 1) client.send({ op: "PUBLISH", topic: "orders", payload: n });
  client.send({ op: "PUBLISH", topic: "orders", payload: "x".repeat(70_000), corr: "large" });
  client.send({ op: "PING", corr: "behind" });
  await hub.idle();
  const answers = (await client.frames()).map(({ corr, code }) => `${corr ?? "-"} ${code ?? "OK"}`);
  assert.deepEqual(answers, ["- OK", "- OK", "large rate_limited"]);
  await hub.advance(1000);
  assert.deepEqual((await client.frames()).map(({ corr }) => corr), ["behind"]);
});

test("a connection that does not say who it is may send few and small frames", async () => {
  const hub = new MemoryHub({ clock: "manual" });
  const many = await FrameClient.stranger(hub);
  for (let n = 0; n < 33; n += 1) many.send({ op: "PING" });
  const large = await FrameClient.stranger(hub);
  large.socket.send(" ".repeat(40_000));
  const late = await FrameClient.stranger(hub);
  await hub.advance(10_000);
  assert.deepEqual([many.closed, large.closed, late.closed], [1008, 1009, 1008]);
});

test("a client that closes its socket is gone, and its leases go to others", async () => {
  const hub = new MemoryHub();
  const [one, two] = [await FrameClient.connect(hub), await FrameClient.connect(hub)];
  await one.subscribe("orders", "g");
  hub.publish("orders", 1);
  await one.frames();
  await two.subscribe("orders", "g");
  one.socket.close(1000, "done");
  assert.deepEqual(await two.payloads(), ["1/2"]);
  assert.equal(one.closed, 1000);
});

test("two hubs have nothing in common, but for what a program does with both", async () => {
  const [one, two] = [new MemoryHub(), new MemoryHub()];
  assert.notEqual(one.url, two.url);
  one.publish("orders", 1);
  assert.deepEqual(two.events("orders"), []);
  const client = await FrameClient.stranger(two);
  assert.equal((await client.ask({ op: "AUTH", token: one.token() })).op, "OK", "hubs in memory have one secret");
});
