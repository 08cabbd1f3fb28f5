import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import type { HubError } from "../../src/errors.ts";
import { PromClient } from "../../src/node.ts";
import { deferred, setUp, setUpConnected, stateOf, inState } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, type FakeSocket, uuid } from "../support/server.ts";

function confirm(socket: FakeSocket): void {
  socket.answerBy((frame) => {
    if (frame.op === "ACK" || frame.op === "RETURN") socket.ok(frame, { unknown: [] });
    if (frame.op === "PAUSE" || frame.op === "UNSUBSCRIBE") socket.ok(frame);
  });
}

test("close hands back what waits, lets finish what runs, and flushes acks and publishes (nodejs-pubsub#1860)", async () => {
  const { hub, socket, states } = await setUpConnected();
  const gate = deferred();
  const subscribed = hub.subscribe("orders", "g", () => gate.promise, { concurrency: 1 });
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  for (let n = 1; n <= 2; n++) socket.say(eventFrame("orders", "g", { id: uuid(n), seq: n }));
  const published = hub.publish("orders", 1);
  const publish = await socket.next("PUBLISH");
  const closed = hub.close();
  inState(hub, "closing");
  await assert.rejects(hub.publish("orders", 2), { code: "closed" });
  await assert.rejects(hub.subscribe("more", "g", () => undefined), { code: "closed" });
  assert.deepEqual((await socket.next("RETURN"))["ids"], [uuid(2)]);
  gate.resolve();
  assert.deepEqual((await socket.next("ACK"))["ids"], [uuid(1)]);
  await socket.next("UNSUBSCRIBE");
  assert.equal(await stateOf(closed), "pending");
  socket.ok(publish, { id: uuid(9), seq: 1, ts: 1, durable: "fsync" });
  await published;
  await closed;
  assert.deepEqual(states.map((state) => state.is).slice(-2), ["closing", "closed"]);
});

test("a handler that is told to stop gives its event back without a failure", async () => {
  const { hub, socket } = await setUpConnected();
  const subscribed = hub.subscribe(
    "orders",
    "g",
    (_, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
  );
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  await settle();
  await hub.close();
  const ops = socket.received.map((frame) => frame.op);
  assert.ok(ops.includes("RETURN") && !ops.includes("NACK") && !ops.includes("ACK"), ops.join(" "));
});

test("a handler may publish while the client closes, and its ack still counts", async () => {
  const { hub, socket } = await setUpConnected();
  const gate = deferred();
  const subscribed = hub.subscribe("orders", "g", async (_, ctx) => {
    await gate.promise;
    await ctx.publish("mail.due", 1);
  });
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  await settle();
  const closed = hub.close();
  gate.resolve();
  socket.ok(await socket.next("PUBLISH"), { id: uuid(9), seq: 1, ts: 1, durable: "fsync" });
  await socket.next("ACK");
  await closed;
});

test("after its time close waits no longer: publishes are unavailable, leases go back", async () => {
  const { hub, socket, platform } = await setUpConnected();
  const subscribed = hub.subscribe("orders", "g", () => new Promise(() => undefined));
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  const published = hub.publish("orders", 1, { id: uuid(5) });
  const failed = assert.rejects(published, (error: HubError) => error.code === "unavailable" && error.id === uuid(5));
  await settle();
  const closed = hub.close({ timeoutMs: 1_000 });
  await platform.pass(999);
  assert.equal(await stateOf(closed), "pending");
  await platform.pass(1);
  await failed;
  await closed;
  assert.ok(socket.received.some((frame) => frame.op === "UNSUBSCRIBE"));
  assert.equal(platform.timers, 0);
});

test("close goes on connecting for publishes that nobody has answered", async () => {
  const { hub, server } = setUp();
  const published = hub.publish("orders", 1);
  const closed = hub.close();
  const socket = await server.accept();
  socket.ok(await socket.next("PUBLISH"), { id: uuid(1), seq: 1, ts: 1, durable: "fsync" });
  await published;
  await closed;
  inState(hub, "closed");
});

test("closing twice, and closing what was never used, is fine", async () => {
  const { hub, server } = setUp();
  await Promise.all([hub.close(), hub.close()]);
  await hub.close();
  assert.equal(server.sockets.length, 0);
  inState(hub, "closed");
});

test("await using closes the client", async () => {
  const { hub } = await setUpConnected();
  await hub[Symbol.asyncDispose]();
  inState(hub, "closed");
});

test("state listeners can come and go", async () => {
  const { hub, server } = setUp();
  const seen: string[] = [];
  const stop = hub.onState((state) => seen.push(state.is));
  const connected = hub.connect();
  await server.accept();
  await connected;
  stop();
  await hub.close();
  assert.deepEqual(seen, ["token", "opening", "authenticating", "ready"]);
});

test("a handler that asks for its signal after the client began to close finds it aborted", async () => {
  const { hub, socket } = await setUpConnected();
  const gate = deferred();
  let aborted: boolean | undefined;
  const subscribed = hub.subscribe("orders", "g", async (_, ctx) => {
    await gate.promise;
    aborted = ctx.signal.aborted;
  });
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  await settle();
  const closed = hub.close();
  gate.resolve();
  await closed;
  assert.equal(aborted, true);
});

test("close may be called by what close itself calls: a listener of states, a handler's signal", async () => {
  const { hub, socket } = await setUpConnected();
  const again: Promise<void>[] = [];
  hub.onState(({ is }) => {
    if (is === "closing") again.push(hub.close());
  });
  const subscribed = hub.subscribe(
    "orders",
    "g",
    (_, ctx) =>
      new Promise<void>((resolve) => {
        ctx.signal.addEventListener("abort", () => {
          again.push(hub.close());
          resolve();
        });
      }),
  );
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  confirm(socket);
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  await settle();
  const closed = hub.close();
  assert.equal(await stateOf(closed), "resolved");
  assert.equal(again.length, 2);
  for (const each of again) assert.equal(await stateOf(each), "resolved");
});

test("a time that is no number is no reason to wait for ever", async () => {
  const { hub } = await setUpConnected();
  void hub.publish("orders", 1).catch(() => undefined);
  await settle();
  assert.equal(await stateOf(hub.close({ timeoutMs: NaN })), "resolved");
});

test("under Node nothing is left of a connection that does not answer the closing handshake", async (t) => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const accepted = (async () => {
    const [socket] = (await once(server, "connection")) as [Socket];
    const [request] = (await once(socket, "data")) as [Buffer];
    const key = /^sec-websocket-key: (.*)\r$/im.exec(request.toString())?.[1] ?? "";
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    await once(socket, "data");
    const answer = '{"op":"OK","corr":"1"}';
    socket.write(Buffer.concat([Buffer.from([0x81, answer.length]), Buffer.from(answer)]));
    // It reads on, but says nothing any more.
    socket.resume();
    return socket;
  })();
  const hub = new PromClient(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/`, "token");
  await hub.connect();
  const socket = await accepted;
  socket.on("error", () => undefined);
  const gone = once(socket, "close");
  const began = performance.now();
  await hub.close();
  await gone;
  const ms = performance.now() - began;
  assert.ok(ms < 20_000, `the socket was kept for ${ms} ms; the handshake may take 5 s`);
});
