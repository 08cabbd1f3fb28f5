import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import type { HubError } from "../../src/errors.ts";
import { TestClient, setUp, setUpConnected, stateOf, inState } from "../support/client.ts";
import { settle } from "../support/clock.ts";

test("connect sends AUTH with the token and resolves with the answer", async () => {
  const { hub, server, states } = setUp();
  const connected = hub.connect();
  inState(hub, "opening");
  const socket = await server.connection();
  assert.equal(socket.url, "ws://hub.test");
  assert.deepEqual(socket.received, []);
  socket.open();
  const auth = await socket.next();
  assert.deepEqual({ ...auth, corr: "" }, { op: "AUTH", token: "a-token", corr: "" });
  assert.equal(await stateOf(connected), "pending");
  socket.ok(auth, { sub: "ada", exp: 2_000_000_000 });
  await connected;
  assert.deepEqual(states.map((state) => state.is), ["token", "opening", "authenticating", "ready"]);
  assert.ok(inState(hub, "ready").sub === "ada" && inState(hub, "ready").exp === 2_000_000_000);
  await hub.close();
});

test("a client that nobody uses opens nothing and keeps no timer", () => {
  const { server, platform } = setUp();
  assert.equal(server.sockets.length, 0);
  assert.equal(platform.timers, 0);
  assert.equal(platform.watchers, 0);
});

test("the first failure rejects connect with its code, and a client without work gives up", async () => {
  const { hub, server, platform } = setUp();
  const connected = hub.connect();
  (await server.connection()).fail("connect ECONNREFUSED");
  await assert.rejects(connected, (error: HubError) => {
    assert.equal(error.code, "connect_failed");
    assert.match(String(error), /^Error: connect_failed: ws:\/\/hub\.test: connect ECONNREFUSED$/);
    return true;
  });
  inState(hub, "idle");
  assert.equal(platform.timers, 0);
  assert.equal(platform.watchers, 0);
  const again = hub.connect();
  await server.accept();
  await again;
  await hub.close();
});

test("an address that the socket refuses rejects connect", async () => {
  const { hub, platform } = setUp();
  platform.openSocket = () => {
    throw new SyntaxError("not an address");
  };
  const other = new TestClient(platform, { urls: ["ws://hub.test"] });
  await assert.rejects(other.connect(), /connect_failed: ws:\/\/hub\.test: SyntaxError: not an address/);
  await other.close();
  await hub.close();
});

test("a refused fixed token closes the client for good", async () => {
  const { hub, server, platform } = setUp();
  const connected = hub.connect();
  const published = hub.publish("orders", 1);
  const socket = await server.connection();
  socket.open();
  socket.err(await socket.next("AUTH"), "jwt_invalid");
  await assert.rejects(connected, /^Error: jwt_invalid: /);
  await assert.rejects(published, /^Error: jwt_invalid: /);
  assert.ok(inState(hub, "closed").error?.code === "jwt_invalid");
  await assert.rejects(hub.publish("orders", 1), (error: HubError) => error.code === "closed" && (error.cause as HubError).code === "jwt_invalid");
  await assert.rejects(hub.connect(), { code: "closed" });
  await hub.close();
  assert.equal(platform.timers, 0);
  assert.ok(socket.isClosed);
});

test("the addresses are tried in turn", async () => {
  const { hub, server, platform } = setUp({ urls: ["ws://one", "ws://two"] });
  const published = hub.publish("orders", 1);
  (await server.connection()).cut();
  await platform.pass(10_000);
  const second = await server.connection();
  assert.equal(second.url, "ws://two");
  second.cut();
  await platform.pass(10_000);
  assert.equal((await server.connection()).url, "ws://one");
  await hub.close({ timeoutMs: 0 });
  await assert.rejects(published, { code: "unavailable" });
});

test("failing attempts never loop without a pause, whatever the jitter draws (centrifuge-js#408)", async () => {
  for (const luck of [0, 0.5, 0.999]) {
    const { hub, server, platform } = setUp();
    platform.luck = luck;
    // Work, so that the client goes on trying.
    hub.watch("orders", () => undefined);
    let attempts = 0;
    const fail = async (): Promise<void> => {
      for (; attempts < server.sockets.length; attempts++) server.sockets[attempts]?.fail("refused");
      await settle();
    };
    await fail();
    for (let ms = 0; ms < 500; ms += 10) {
      await platform.pass(10);
      await fail();
    }
    assert.ok(attempts <= 26, `${attempts} attempts in 500 ms with luck ${luck}`);
    await hub.close({ timeoutMs: 0 });
  }
});

test("a hub that accepts and hangs up at once is not asked again without a longer and longer pause", async () => {
  const { hub, server, platform } = setUp();
  platform.luck = 0.999;
  hub.watch("orders", () => undefined);
  const waits: number[] = [];
  for (let round = 0; round < 9; round++) {
    (await server.accept()).cut();
    await settle();
    waits.push(Math.ceil(platform.nextTimer));
    await platform.pass(platform.nextTimer);
  }
  assert.deepEqual(waits, [100, 200, 400, 800, 1599, 3197, 6394, 9990, 9990]);
  await hub.close({ timeoutMs: 0 });
});

test("a connection that lasted makes the failures before it forgotten", async () => {
  const { hub, server, platform } = setUp();
  platform.luck = 0.999;
  hub.watch("orders", () => undefined);
  (await server.connection()).cut();
  await platform.pass(100);
  (await server.connection()).cut();
  await platform.pass(200);
  const socket = await server.accept();
  await platform.pass(5_000);
  socket.cut();
  assert.ok(inState(hub, "waiting").tries === 1);
  assert.equal(Math.ceil(platform.nextTimer), 100);
  await hub.close({ timeoutMs: 0 });
});

test("after 1012 the next attempt comes within a second", async () => {
  const { hub, server, platform } = setUp();
  platform.luck = 0.7;
  hub.watch("orders", () => undefined);
  const socket = await server.accept();
  await platform.pass(6_000);
  socket.cut(1012, "the hub stops");
  assert.equal(platform.nextTimer, 700);
  await hub.close({ timeoutMs: 0 });
});

test("after 1008 because of a flood the wait is the longest", async () => {
  const { hub, server, platform } = setUp();
  platform.luck = 0;
  const published = hub.publish("orders", 1);
  const socket = await server.accept();
  socket.err(await socket.next("PUBLISH"), "rate_limited", { retry_after_ms: 50 });
  socket.cut(1008, "too many requests in spite of rate_limited");
  assert.equal(platform.nextTimer, 10_000);
  await hub.close({ timeoutMs: 0 });
  await assert.rejects(published, { code: "unavailable" });
});

test("a socket that does not open, and a hub that does not answer AUTH, are given up after 10 s", async () => {
  const { hub, server, platform } = setUp();
  hub.watch("orders", () => undefined);
  const first = await server.connection();
  await platform.pass(9_999);
  inState(hub, "opening");
  await platform.pass(1);
  assert.ok(/within 10 s/.test(inState(hub, "waiting").error.message));
  assert.ok(first.isClosed);
  await platform.pass(1_000);
  const second = await server.connection();
  second.open();
  await second.next("AUTH");
  await platform.pass(10_000);
  assert.ok(/AUTH/.test(inState(hub, "waiting").error.message));
  // What comes late of a connection that was given up changes nothing.
  first.open();
  second.ok({ op: "AUTH", corr: "1" });
  inState(hub, "waiting");
  await hub.close({ timeoutMs: 0 });
});

test("a silent connection is probed after 25 s and given up 5 s later", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  hub.watch("orders", () => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  await platform.pass(24_999);
  await socket.silent("PING");
  await platform.pass(1);
  await socket.next("PING");
  await platform.pass(4_999);
  inState(hub, "ready");
  await platform.pass(1);
  assert.ok(/PING/.test(inState(hub, "waiting").error.message));
  assert.ok(socket.isClosed);
  await platform.pass(10_000);
  await server.accept();
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("whatever is heard answers a probe, and puts off the next one", async () => {
  const { hub, socket, platform } = await setUpConnected();
  await platform.pass(20_000);
  socket.say({ op: "LAGGED", topic: "nobody", missed: 1 });
  await platform.pass(24_999);
  await socket.silent("PING");
  await platform.pass(1);
  await socket.next("PING");
  socket.say({ op: "LAGGED", topic: "nobody", missed: 1 });
  await platform.pass(24_999);
  inState(hub, "ready");
  await socket.silent("PING");
  await hub.close();
});

test("a probe of an old connection does not end the new one (phoenix#3083)", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  hub.watch("orders", () => undefined);
  await platform.pass(25_000);
  await socket.next("PING");
  await platform.pass(4_000);
  socket.cut();
  await platform.pass(200);
  await server.accept();
  await platform.pass(10_000);
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("a clock that has jumped finds a dead connection (socket.io#5135)", async () => {
  const { hub, socket, platform } = await setUpConnected();
  hub.watch("orders", () => undefined);
  platform.sleep(3_600_000);
  // The first timer after the sleep finds out.
  await platform.pass(10_000);
  await socket.next("PING");
  await platform.pass(5_000);
  inState(hub, "waiting");
  await hub.close({ timeoutMs: 0 });
});

test("waking up probes at once, and cuts a wait short once a second at most", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  platform.luck = 0.999;
  hub.watch("orders", () => undefined);
  platform.tell("wake");
  await socket.next("PING");
  await platform.pass(5_000);
  inState(hub, "waiting");
  for (let round = 0; round < 6; round++) {
    await platform.pass(platform.nextTimer);
    (await server.connection()).fail("refused");
  }
  assert.ok(platform.nextTimer > 3_000);
  const attempts = server.sockets.length;
  for (let ms = 0; ms < 2_000; ms += 100) {
    platform.tell("wake");
    await platform.pass(100);
    for (const other of server.sockets) if (!other.isClosed) other.fail("refused");
  }
  const made = server.sockets.length - attempts;
  assert.ok(made >= 1 && made <= 3, `${made} attempts in two seconds`);
  await hub.close({ timeoutMs: 0 });
});

test("a frozen page gives back, keeps no connection and no timer, and connects when it is shown again", async () => {
  const { hub, server, socket, platform } = await setUpConnected();
  const handled: number[] = [];
  void hub.subscribe("orders", "g", (event) => void handled.push(event.seq)).catch(() => undefined);
  socket.ok(await socket.next("SUBSCRIBE"));
  platform.tell("suspend");
  assert.equal((await socket.next("UNSUBSCRIBE"))["group"], "g");
  assert.ok(socket.isClosed);
  await platform.pass(600_000);
  assert.equal(server.sockets.length, 1);
  platform.tell("wake");
  await (await server.accept()).next("SUBSCRIBE");
  await hub.close({ timeoutMs: 0 });
});

test("timers beyond 2^31 ms do not fire at once (centrifuge ttlMilliseconds)", async () => {
  const tokens: number[] = [];
  const exp = 1_700_000_001 + 400 * 24 * 3600;
  const { hub, platform } = await setUpConnected({ token: () => `t${tokens.push(1)}` }, { exp });
  assert.ok(platform.timersSet.every((ms) => ms <= 2 ** 31 - 1));
  await platform.pass(1_000);
  assert.equal(tokens.length, 1);
  inState(hub, "ready");
  await hub.close({ timeoutMs: 0 });
});

test("connect and close may be called inside a state handler (centrifuge-js#391)", async () => {
  const { hub, server, states } = setUp({
    on: {
      state: (state) => {
        if (state.is === "waiting") void hub.close({ timeoutMs: 0 });
        if (state.is === "opening") hub.connect().catch(() => undefined);
      },
    },
  });
  const connected = hub.connect();
  hub.watch("orders", () => undefined);
  (await server.connection()).cut();
  await assert.rejects(connected);
  await settle();
  assert.deepEqual(states.map((state) => state.is), ["token", "opening", "waiting", "closing", "closed"]);
  assert.equal(server.sockets.length, 1);
});

test("a state handler that throws breaks nothing (centrifuge-js#420)", async (t) => {
  const complaints = t.mock.method(console, "error", () => undefined);
  const { hub } = await setUpConnected({
    on: {
      state: () => {
        throw new Error("of the program");
      },
    },
  });
  inState(hub, "ready");
  assert.equal(complaints.mock.callCount(), 4);
  await hub.close();
});

test("listeners of the page live only between connect and close (centrifuge-js#389)", async () => {
  const { hub, server, platform } = setUp();
  assert.equal(platform.watchers, 0);
  hub.watch("orders", () => undefined);
  const connected = hub.connect();
  assert.equal(platform.watchers, 1);
  (await server.accept()).cut();
  await connected;
  await platform.pass(100);
  const socket = await server.accept();
  assert.equal(platform.watchers, 1);
  assert.ok(socket.listeners <= 4);
  const closed = hub.close();
  await settle();
  socket.cut(1000);
  await closed;
  assert.equal(platform.watchers, 0);
  assert.equal(platform.timers, 0);
});

test("nothing connects again after close (phoenix#6578, #6620)", async () => {
  const { hub, server, platform, socket } = await setUpConnected();
  const closed = hub.close();
  socket.cut(1000);
  await closed;
  platform.tell("wake");
  await platform.pass(60_000);
  assert.equal(server.sockets.length, 1);
  inState(hub, "closed");
});

test("a hub that does not answer the closing handshake is left after 5 s", async () => {
  const { hub, platform, socket } = await setUpConnected();
  socket.answersClose = false;
  const closed = hub.close();
  await settle();
  assert.ok(socket.isClosed);
  assert.equal(await stateOf(closed), "pending");
  await platform.pass(5_000);
  await closed;
  inState(hub, "closed");
});

test("connect can be given up by a signal, and is not tried with an aborted one", async () => {
  const { hub, server } = setUp();
  const controller = new AbortController();
  const connected = hub.connect({ signal: controller.signal });
  await server.connection();
  controller.abort(new Error("enough"));
  await assert.rejects(connected, /enough/);
  await assert.rejects(hub.connect({ signal: AbortSignal.abort(new Error("before")) }), /before/);
  await hub.close({ timeoutMs: 0 });
});

test("bad options say what is allowed", () => {
  const { platform } = setUp();
  const make = (options: object) => () => new TestClient(platform, { urls: ["ws://hub"], ...options });
  assert.throws(make({ urls: [] }), /urls is empty; give at least one address/);
  assert.throws(make({ urls: ["http://hub"] }), /url "http:\/\/hub": an address that begins with ws:\/\/ or wss:\/\/ is allowed/);
  assert.throws(make({ pending: { events: 0 } }), /pending.events 0: a number above 0 is allowed/);
  assert.throws(make({ publishTimeoutMs: NaN }), /publishTimeoutMs NaN/);
});

test("frames that are not JSON, not text, or of an op that nobody knows are ignored", async () => {
  const { hub, socket, logs } = await setUpConnected();
  socket.say("not json");
  socket.say({ op: "NEWS" });
  socket.say({ op: "OK", corr: "of nobody" });
  inState(hub, "ready");
  assert.equal(logs.filter((log) => log.level === "warn").length, 1);
  await hub.close();
});

test("connect leaves no listener on its signal", async () => {
  const { signal } = new AbortController();
  const { hub, server } = setUp();
  const connected = hub.connect({ signal });
  await server.accept();
  await connected;
  assert.equal(getEventListeners(signal, "abort").length, 0);
  await hub.close({ timeoutMs: 0 });
});

test("a function for sockets that returns something else is a failed attempt, and close ends it", async () => {
  const { hub } = setUp({ webSocket: (() => Promise.resolve()) as never });
  await assert.rejects(hub.connect(), { code: "connect_failed" });
  void hub.publish("orders", 1).catch(() => undefined);
  await settle();
  assert.equal(hub.state.is, "waiting");
  assert.equal(await stateOf(hub.close({ timeoutMs: 0 })), "resolved");
});

test("JSON that is no frame is ignored", async () => {
  const { hub, socket } = await setUpConnected();
  for (const text of ["null", "1", '"OK"', "[]", "{}"]) socket.say(text);
  assert.equal(hub.state.is, "ready");
  await hub.close();
});

test("a hub that names no pause after refusing AUTH is not asked again without one", async () => {
  const { hub, server, platform } = setUp({ token: () => "t" });
  hub.watch("news", () => undefined);
  for (let attempt = 0; attempt < 8; attempt++) {
    const socket = await server.connection();
    socket.open();
    socket.err(await socket.next("AUTH"), "rate_limited", { retry_after_ms: 0 });
    await settle();
    assert.equal(hub.state.is, "waiting");
    await platform.pass(platform.nextTimer);
  }
  // 50 ms, 100 ms, 200 ms and so on.
  assert.ok(platform.steady() - 1_000 > 5_000, `8 attempts in ${platform.steady() - 1_000} ms`);
  await hub.close({ timeoutMs: 0 });
});
