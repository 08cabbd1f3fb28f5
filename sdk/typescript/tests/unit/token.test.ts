import assert from "node:assert/strict";
import { test } from "node:test";
import type { HubError } from "../../src/errors.ts";
import type { TokenRequest } from "../../src/connection/token.ts";
import { deferred, setUp, setUpConnected, inState } from "../support/client.ts";
import { settle } from "../support/clock.ts";
import { eventFrame, uuid } from "../support/server.ts";

/** The wall clock of the tests, in seconds. */
const NOW = 1_700_000_001;

/** A token function that a test answers by hand. */
function byHand(): { token: (request: TokenRequest) => Promise<string>; requests: (TokenRequest & { answer: (token: string) => void; fail: (error: Error) => void })[] } {
  const requests: (TokenRequest & { answer: (token: string) => void; fail: (error: Error) => void })[] = [];
  return {
    requests,
    token(request) {
      const { promise, resolve, reject } = deferred<string>();
      requests.push({ ...request, answer: resolve, fail: reject });
      return promise;
    },
  };
}

function jwt(claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "HS256" })}.${part(claims)}.c2ln`;
}

test("the token is there before the socket is opened", async () => {
  const { token, requests } = byHand();
  const { hub, server } = setUp({ token });
  const connected = hub.connect();
  await settle();
  inState(hub, "token");
  assert.equal(server.sockets.length, 0);
  requests[0]?.answer("fresh");
  const socket = await server.connection();
  socket.open();
  const auth = await socket.next("AUTH");
  assert.equal(auth["token"], "fresh");
  socket.ok(auth);
  await connected;
  await hub.close();
});

test("a token function that takes over 30 s is aborted and asked again", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  hub.watch("orders", () => undefined);
  await platform.pass(30_000);
  assert.ok(inState(hub, "waiting").error.code === "token_failed");
  assert.ok(requests[0]?.signal.aborted);
  await platform.pass(100);
  assert.equal(requests.length, 2);
  // The first one comes late: it is not the one that is waited for.
  requests[0]?.answer("late");
  await settle();
  assert.equal(server.sockets.length, 0);
  requests[1]?.answer("second");
  const socket = await server.connection();
  socket.open();
  assert.equal((await socket.next("AUTH"))["token"], "second");
  await hub.close({ timeoutMs: 0 });
});

test("a token function that throws is an error with a cause, and is asked again", async () => {
  const cause = new Error("the identity provider is down");
  let asked = 0;
  const { hub, server, platform } = setUp({
    token: () => {
      if (asked++ === 0) throw cause;
      return "ok";
    },
  });
  const connected = hub.connect();
  hub.watch("orders", () => undefined);
  await assert.rejects(connected, (error: HubError) => error.code === "token_failed" && error.cause === cause);
  await platform.pass(1_000);
  await server.accept();
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("a token that arrives after the reconnect is not used (centrifuge-js#435, centrifuge-dart#129)", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  hub.watch("orders", () => undefined);
  await settle();
  requests[0]?.answer("first");
  const first = await server.connection();
  first.open();
  const renewAt = 1_000 * 0.8;
  first.ok(await first.next("AUTH"), { exp: NOW + 1 });
  await platform.pass(Math.ceil(renewAt) + 200);
  assert.equal(requests.length, 2, "the token is renewed before it ends");
  first.cut();
  assert.ok(requests[1]?.signal.aborted);
  await platform.pass(1_000);
  assert.equal(requests.length, 3);
  requests[2]?.answer("third");
  requests[1]?.answer("stale");
  const second = await server.connection();
  second.open();
  const auth = await second.next("AUTH");
  assert.equal(auth["token"], "third");
  second.ok(auth);
  await second.silent("AUTH");
  await hub.close({ timeoutMs: 0 });
});

test("events that come while a token is fetched are handled and acked (vm0#34262)", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  const handled: string[] = [];
  const subscribed = hub.subscribe("orders", "g", (event) => void handled.push(event.id));
  await settle();
  requests[0]?.answer("first");
  const socket = await server.connection();
  socket.open();
  socket.ok(await socket.next("AUTH"), { exp: NOW + 10 });
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  await platform.pass(8_500);
  assert.equal(requests.length, 2);
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  assert.deepEqual((await socket.next("ACK"))["ids"], [uuid(1)]);
  assert.deepEqual(handled, [uuid(1)]);
  await hub.close({ timeoutMs: 0 });
});

test("a token is renewed at 80 % of its life, on the same connection", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  const connected = hub.connect();
  requests[0]?.answer("first");
  const socket = await server.accept({ exp: NOW + 100 });
  await connected;
  // The PING of a quiet connection is answered.
  socket.answerBy((frame) => frame.op === "PING" && socket.ok(frame));
  await platform.pass(79_000);
  assert.equal(requests.length, 1);
  await platform.pass(1_000);
  assert.equal(requests.length, 2);
  requests[1]?.answer("second");
  const auth = await socket.next("AUTH");
  assert.equal(auth["token"], "second");
  socket.ok(auth, { exp: NOW + 180 });
  await settle();
  assert.ok(inState(hub, "ready").exp === NOW + 180);
  assert.equal(server.sockets.length, 1);
  await hub.close({ timeoutMs: 0 });
});

test("a clock that is behind does not put the renewal off beyond the life of the token", async () => {
  // By this clock the token is good for a day; it was issued for 100 s.
  const claims = { iat: NOW + 86_300, exp: NOW + 86_400 };
  let asked = 0;
  const { hub, server, platform } = setUp({ token: () => jwt({ ...claims, n: asked++ }) });
  const connected = hub.connect();
  const socket = await server.accept({ exp: claims.exp });
  await connected;
  socket.answerBy((frame) => frame.op === "PING" && socket.ok(frame));
  await platform.pass(79_000);
  assert.equal(asked, 1);
  await platform.pass(1_000);
  assert.equal(asked, 2);
  await hub.close({ timeoutMs: 0 });
});

test("a clock that is ahead does not renew without a pause", async () => {
  let asked = 0;
  const { hub, platform } = await setUpConnected({ token: () => `t${asked++}` }, { exp: NOW - 3_600 });
  const before = asked;
  await platform.pass(10_000);
  assert.ok(asked - before <= 10, `${asked - before} renewals in 10 s`);
  await hub.close({ timeoutMs: 0 });
});

test("a renewal that fails leaves the connection, and is tried again later and later", async () => {
  let asked = 0;
  const { hub, platform } = await setUpConnected(
    {
      token: () => {
        if (asked++ > 0) throw new Error("down");
        return "first";
      },
    },
    { exp: NOW + 20 },
  );
  await platform.pass(16_000);
  assert.equal(asked, 2);
  await platform.pass(1_000 + 2_000 + 4_000);
  assert.equal(asked, 5);
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("a token that has run out is renewed on the connection; publishes wait, acks do not", async () => {
  const { token, requests } = byHand();
  const { hub, server } = setUp({ token });
  const working = deferred();
  const subscribed = hub.subscribe("orders", "g", () => working.promise);
  await settle();
  requests[0]?.answer("first");
  const socket = await server.accept();
  socket.ok(await socket.next("SUBSCRIBE"));
  await subscribed;
  socket.say(eventFrame("orders", "g", { id: uuid(1) }));
  socket.err(undefined, "token_expired");
  await settle();
  assert.ok(inState(hub, "ready").expired);
  const published = hub.publish("orders", { n: 1 });
  working.resolve();
  assert.deepEqual((await socket.next("ACK"))["ids"], [uuid(1)]);
  await socket.silent("PUBLISH");
  assert.equal(requests.length, 2);
  requests[1]?.answer("second");
  socket.ok(await socket.next("AUTH"));
  const publish = await socket.next("PUBLISH");
  socket.ok(publish, { id: uuid(2), seq: 1, ts: 1, durable: "fsync" });
  await published;
  assert.equal(server.sockets.length, 1);
  await hub.close({ timeoutMs: 0 });
});

test("a fixed token that has run out closes the client with the reason", async () => {
  const { hub, socket } = await setUpConnected();
  const watcher = hub.watch("orders", () => undefined);
  socket.err(undefined, "token_expired");
  assert.equal((await watcher.closed)?.code, "token_expired");
  assert.ok(inState(hub, "closed").error?.code === "token_expired");
});

test("a refused token is replaced once at once, and the function hears why", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  const connected = hub.connect();
  hub.watch("orders", () => undefined);
  requests[0]?.answer("cached");
  const first = await server.connection();
  first.open();
  first.err(await first.next("AUTH"), "jwt_invalid");
  await settle();
  assert.equal(requests[1]?.refused?.code, "jwt_invalid");
  requests[1]?.answer("also bad");
  const second = await server.connection();
  second.open();
  second.err(await second.next("AUTH"), "jwt_invalid");
  await assert.rejects(connected, /^Error: jwt_invalid/);
  inState(hub, "waiting");
  await platform.pass(1_000);
  requests[2]?.answer("good");
  await server.accept();
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("a revoked token is replaced before the next connection", async () => {
  let asked = 0;
  const { hub, server, socket, platform } = await setUpConnected({ token: () => `t${asked++}` });
  hub.watch("orders", () => undefined);
  socket.err(undefined, "token_revoked");
  socket.cut(1008, "the token was revoked");
  assert.ok(inState(hub, "waiting").error.code === "token_revoked");
  await platform.pass(1_000);
  const next = await server.connection();
  next.open();
  assert.equal((await next.next("AUTH"))["token"], "t1");
  await hub.close({ timeoutMs: 0 });
});

test("after a sleep the token is renewed before anything else is tried (supabase-js#2613)", async () => {
  const { token, requests } = byHand();
  const { hub, server, platform } = setUp({ token });
  const connected = hub.connect();
  hub.watch("orders", () => undefined);
  requests[0]?.answer("first");
  const socket = await server.accept({ exp: NOW + 600 });
  await connected;
  platform.sleep(3_600_000);
  platform.tell("wake");
  await settle();
  assert.equal(requests.length, 2, "the token has ended meanwhile");
  await socket.next("PING");
  await platform.pass(5_000);
  inState(hub, "waiting");
  await platform.pass(1_000);
  assert.equal(requests.length, 3);
  assert.equal(server.sockets.length, 1, "no connection before the token is there");
  requests[2]?.answer("fresh");
  const next = await server.connection();
  next.open();
  assert.equal((await next.next("AUTH"))["token"], "fresh");
  await hub.close({ timeoutMs: 0 });
});

test("a clock that is ahead of the hub's does not ask for a token every second", async () => {
  const issued = 1_600_000_000;
  let asked = 0;
  const token = (): string => {
    asked++;
    return `a.${Buffer.from(JSON.stringify({ iat: issued, exp: issued + 300 })).toString("base64url")}.c`;
  };
  const { hub, platform } = await setUpConnected({ token }, { exp: issued + 300 });
  await platform.pass(20_000);
  assert.equal(asked, 1);
  await hub.close({ timeoutMs: 0 });
});
