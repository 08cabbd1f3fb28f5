// The hooks in a document, with the real client and a hub in memory.

import { Stage } from "./stage.ts";
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { type ReactElement, createElement } from "react";
import { renderToString } from "react-dom/server";
import { type Events, HubProvider, type Latest, useEvents, useHub, useHubState, useLatest } from "../../src/react/index.ts";

/** Shows the state of a topic, and keeps what it has rendered. */
function Prices({ topic = "prices", seen = [] }: { topic?: string; seen?: Latest[] }): ReactElement {
  const latest = useLatest<number>(topic);
  seen.push(latest);
  const shown = [...latest.values].map(([key, event]) => `${key}=${event.payload}`).sort();
  return createElement("p", null, latest.error ? latest.error.code : `${latest.isOpen ? "open" : "..."} ${shown.join(" ")}`);
}

function News({ limit, seen = [] }: { limit?: number; seen?: Events[] }): ReactElement {
  const news = useEvents("prices", limit === undefined ? {} : { limit });
  seen.push(news);
  return createElement("p", null, news.events.map((event) => JSON.stringify(event.payload)).join(" "));
}

async function staged(run: (stage: Stage) => Promise<void>, ...claims: ConstructorParameters<typeof Stage>): Promise<void> {
  const stage = new Stage(...claims);
  try {
    await run(stage);
  } finally {
    await stage.end();
  }
}

test("a state is the newest value of each key, and then live", () =>
  staged(async (stage) => {
    const { hub } = stage;
    hub.publish("prices", 1, { key: "a" });
    hub.publish("prices", 2, { key: "a" });
    hub.publish("prices", 3, { key: "b" });
    hub.publish("prices", "no state");
    const page = await stage.render(createElement(Prices));
    assert.equal(page.text(), "open a=2 b=3");
    await stage.after(() => hub.publish("prices", 4, { key: "b" }));
    assert.equal(page.text(), "open a=2 b=4");
    await stage.after(() => hub.publish("prices", null, { key: "a" }));
    assert.equal(page.text(), "open b=4", "a deleted key is gone");
  }));

test("keys of a pattern are told apart by their topics", () =>
  staged(async (stage) => {
    stage.hub.publish("shop.a", 1, { key: "k" });
    stage.hub.publish("shop.b", 2, { key: "k" });
    const page = await stage.render(createElement(Prices, { topic: "shop.*" }));
    assert.equal(page.text(), "open shop.a/k=1 shop.b/k=2");
  }));

test("a topic with the longest name has a state, too", () =>
  staged(async (stage) => {
    const topic = `${"t".repeat(179)}.${"u".repeat(20)}`;
    stage.hub.publish(topic, 1, { key: "a" });
    const page = await stage.render(createElement(Prices, { topic }));
    assert.equal(page.text(), "open a=1");
  }));

test("StrictMode mounts twice and subscribes once", () =>
  staged(async (stage) => {
    stage.hub.publish("prices", 1, { key: "a" });
    const page = await stage.render(createElement(Prices), { strict: true });
    assert.equal(page.text(), "open a=1");
    assert.deepEqual([stage.sockets, stage.count("SUBSCRIBE"), stage.count("UNSUBSCRIBE")], [1, 1, 0]);
  }));

test("components that show the same share one subscription and one snapshot", () =>
  staged(async (stage) => {
    const [one, two]: [Latest[], Latest[]] = [[], []];
    const page = await stage.render([createElement(Prices, { key: 1, seen: one }), createElement(Prices, { key: 2, seen: two })]);
    await stage.after(() => stage.hub.publish("prices", 1, { key: "a" }));
    assert.equal(page.text(), "open a=1open a=1");
    assert.equal(stage.count("SUBSCRIBE"), 1);
    assert.equal(one.at(-1), two.at(-1));
  }));

test("what has not changed is the same object however often it is rendered", () =>
  staged(async (stage) => {
    const [seen, news]: [Latest[], Events[]] = [[], []];
    const both = (): ReactElement[] => [createElement(Prices, { key: 1, seen }), createElement(News, { key: 2, seen: news })];
    const page = await stage.render(both());
    await stage.after(() => stage.hub.publish("prices", 1, { key: "a" }));
    const [latest, events] = [seen.at(-1), news.at(-1)];
    await page.show(both());
    assert.equal(seen.at(-1), latest);
    assert.equal(news.at(-1), events);
  }));

test("a burst of events is a few renders", () =>
  staged(async (stage) => {
    const seen: Latest[] = [];
    for (let n = 0; n < 1000; n += 1) stage.hub.publish("prices", n, { key: `k${n}` });
    const page = await stage.render(createElement(Prices, { seen }));
    assert.equal(page.text().split(" ").length, 1001);
    assert.ok(seen.length < 20, `${seen.length} renders`);
  }));

test("a page that comes back within a second has its state at once, and a later one begins anew", (context) => {
  // Before anybody sets a timer: one that is real could not be cleared.
  mock.timers.enable({ apis: ["setTimeout"] });
  context.after(() => mock.timers.reset());
  return staged(async (stage) => {
    stage.hub.publish("prices", 1, { key: "a" });
    const first = await stage.render(createElement(Prices));
    assert.equal(first.text(), "open a=1");
    await first.unmount();
    mock.timers.tick(999);
    const seen: Latest[] = [];
    const second = await stage.render(createElement(Prices, { seen }));
    assert.equal(seen[0]?.values.get("a")?.payload, 1, "the first render has the state");
    await second.unmount();
    mock.timers.tick(999);
    assert.equal(stage.count("UNSUBSCRIBE"), 0);
    await stage.after(() => mock.timers.tick(1));
    assert.equal(stage.count("UNSUBSCRIBE"), 1);
    const third = await stage.render(createElement(Prices));
    assert.equal(third.text(), "open a=1");
    assert.equal(stage.count("SUBSCRIBE"), 2);
  });
});

test("a reconnect keeps the state and the events, and doubles nothing", () =>
  staged(async (stage) => {
    const { hub } = stage;
    const [seen, news]: [Latest[], Events[]] = [[], []];
    hub.publish("prices", 1, { key: "a" });
    const page = await stage.render([createElement(Prices, { key: 1, seen }), createElement(News, { key: 2, seen: news })]);
    await stage.after(() => hub.publish("prices", 2, { key: "b" }));
    assert.equal(page.text(), "open a=1 b=22");
    const before = seen.length;
    await stage.after(async () => {
      const again = stage.reached("ready");
      hub.drop();
      hub.publish("prices", 3, { key: "a" });
      await again;
    });
    assert.equal(page.text(), "open a=3 b=22 3");
    assert.ok(seen.slice(before).every(({ values }) => values.has("a") && values.has("b")), "no render was without its state");
    assert.equal(stage.sockets, 2);
  }));

test("the newest events are kept, as many as each component wants", () =>
  staged(async (stage) => {
    const page = await stage.render([createElement(News, { key: 1, limit: 2 }), createElement("b", { key: 2 }, "|"), createElement(News, { key: 3, limit: 3 })]);
    await stage.after(() => [1, 2, 3, 4].map((n) => stage.hub.publish("prices", n)));
    assert.equal(page.text(), "3 4|2 3 4");
    assert.equal(stage.count("SUBSCRIBE"), 1);
  }));

test("a subscription that the hub refuses shows why", () =>
  staged(async (stage) => {
    const page = await stage.render(createElement(Prices));
    assert.equal(page.text(), "forbidden");
  }, { sub: "page", scopes: ["subscribe:other"] }));

test("a program's own reader of a topic is in nobody's way", () =>
  staged(async (stage) => {
    const own: unknown[] = [];
    stage.client.watch("prices", (event) => own.push(event.payload));
    const page = await stage.render(createElement(Prices));
    await stage.after(() => stage.hub.publish("prices", 1, { key: "a" }));
    assert.deepEqual([page.text(), own], ["open a=1", [1]]);
  }));

test("components see where the connection stands", () =>
  staged(async (stage) => {
    const States = (): ReactElement => createElement("p", null, useHubState().is);
    const page = await stage.render(createElement(States));
    assert.equal(page.text(), "idle");
    await stage.after(() => stage.client.connect());
    assert.equal(page.text(), "ready");
    const waiting = stage.reached("waiting");
    await stage.after(async () => {
      await stage.hub.stop();
      await waiting;
    });
    assert.notEqual(page.text(), "ready");
  }));

test("a server renders what is there before the first event, and connects to nothing", () =>
  staged(async (stage) => {
    stage.hub.publish("prices", 1, { key: "a" });
    const States = (): ReactElement => createElement("i", null, useHubState().is);
    const page = createElement(HubProvider, { client: stage.client }, createElement(Prices), createElement(News), createElement(States));
    assert.equal(renderToString(page), "<p>... </p><p></p><i>idle</i>");
    await stage.hub.idle();
    assert.deepEqual([stage.sockets, stage.client.state.is], [0, "idle"]);
  }));

test("rendering alone subscribes to nothing", () =>
  staged(async (stage) => {
    const Broken = (): ReactElement => {
      useLatest("prices");
      throw new Error("on purpose");
    };
    const error = mock.method(console, "error", () => undefined);
    await assert.rejects(stage.render(createElement(Broken)), /on purpose/);
    error.mock.restore();
    assert.deepEqual([stage.sockets, stage.sent], [0, []]);
  }));

test("a component without a provider says what is missing", () => {
  const Lonely = (): ReactElement => createElement("p", null, String(useHub()));
  assert.throws(() => renderToString(createElement(Lonely)), /no HubProvider around this component/);
});
