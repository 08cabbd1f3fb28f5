// What the dashboard costs in a real Chromium and in the hub. `cargo xtask bench dashboard` builds the hub and starts this; run on a machine that
// does nothing else.
import { readFile } from "node:fs/promises";
import type { Browser } from "playwright-core";
import { launch } from "../tests/browser/harness/chromium.ts";
import { Hub } from "../tests/browser/harness/hub.ts";
import { Viewer } from "../tests/browser/harness/viewer.ts";
import { BUSY_TOPIC, Load } from "./load.ts";
import { Report } from "./report.ts";

/** Ticks of `/proc/PID/stat` in a second, on every Linux. */
const TICKS_PER_SECOND = 100;
const MANY_TOPICS = 100_000;
const LARGE_PAYLOAD_BYTES = 1 << 20;

const words = process.argv.slice(2);
const quick = words.includes("--quick");
const parts = words.filter((word) => !word.startsWith("--"));
const report = new Report(words.includes("--json"));

/** The longest time between two frames while something is done. */
const FRAMES = `window.frames_ = { longest: 0, last: performance.now() };
(function next(now) { frames_.longest = Math.max(frames_.longest, now - frames_.last); frames_.last = now; requestAnimationFrame(next); })(performance.now());`;

async function main(browser: Browser): Promise<void> {
  const all = { paint, seen, payload, busy, heap, viewers, topics };
  const chosen = parts.length === 0 ? Object.keys(all) : parts;
  for (const part of chosen) {
    const run = Object.entries(all).find(([name]) => name === part)?.[1];
    if (run === undefined) throw new Error(`no part ${part}; there is: ${Object.keys(all).join(", ")}`);
    const hub = await Hub.start({ config: "" });
    try {
      await run(browser, hub);
    } finally {
      await hub.end();
    }
  }
  report.end();
}

/** From the navigation to the first paint, with nothing in the browser's cache. */
async function paint(browser: Browser, hub: Hub): Promise<void> {
  const samples: number[] = [];
  for (let turn = 0; turn < 7; turn += 1) {
    const viewer = await Viewer.open(browser, hub);
    await viewer.page.goto(`${hub.http}/#token=${hub.token}`);
    await viewer.live();
    samples.push(await viewer.evaluate<number>(`performance.getEntriesByName("first-contentful-paint")[0].startTime`));
    await viewer.close();
  }
  report.figure("first paint, cold cache", samples, "ms", { most: 300 });
}

/** From the click to the frame that has the payload in it. */
async function payload(browser: Browser, hub: Hub): Promise<void> {
  const line = JSON.stringify({ id: 9007199254740993n.toString(), text: "x".repeat(80) });
  const lines = Array.from({ length: Math.floor((LARGE_PAYLOAD_BYTES - 100) / (line.length + 1)) }, () => line);
  await hub.publish("large", `[${lines.join(",")}]`);
  await hub.publish("large", "1");
  const samples: number[] = [];
  for (let turn = 0; turn < 7; turn += 1) {
    const viewer = await Viewer.open(browser, hub);
    await viewer.logIn(hub.token);
    await viewer.go("/event?topic=large&seq=2");
    await viewer.settled();
    samples.push(await viewer.evaluate<number>(`new Promise((done) => {
      const from = performance.now();
      location.hash = "/event?topic=large&seq=1";
      (function look() {
        if (document.body.textContent.includes("9007199254740993")) requestAnimationFrame(() => setTimeout(() => done(performance.now() - from)));
        else requestAnimationFrame(look);
      })();
    })`));
    await viewer.close();
  }
  report.figure("a payload of 1 MiB is open", samples, "ms", { most: 100 });
}

/** From before an event is published until its row is in the document of a page that shows the tail. */
async function seen(browser: Browser, hub: Hub): Promise<void> {
  const viewer = await Viewer.open(browser, hub);
  await hub.publish(BUSY_TOPIC, "1", "first");
  await viewer.logIn(hub.token);
  await viewer.go(`/topic?topic=${BUSY_TOPIC}`);
  await viewer.see(viewer.page.locator("tbody").getByText("first"));
  const samples: number[] = [];
  for (let n = 0; n < (quick ? 5 : 20); n += 1) {
    const row = viewer.evaluate<number>(`new Promise((done) => {
      const look = () => document.querySelector("tbody")?.textContent.includes("seen-${n}-") && done(Date.now());
      new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
      look();
    })`);
    const before = Date.now();
    await hub.publish(BUSY_TOPIC, "1", `seen-${n}-`);
    samples.push((await row) - before);
  }
  await viewer.close();
  report.figure("an event is in the page after its publish", samples, "ms", { most: 1_000 });
}

/** The renderer's share of a core on screens that change all the time. */
async function busy(browser: Browser, hub: Hub): Promise<void> {
  const load = await Load.start(hub);
  const turn = quick ? 5_000 : 30_000;
  for (const [name, screen] of [["overview", "/"], ["topics by rate", "/topics?sort=-rate"], ["tail of a busy topic", `/topic?topic=${BUSY_TOPIC}`]] as const) {
    const viewer = await Viewer.open(browser, hub);
    await viewer.logIn(hub.token);
    await viewer.go(screen);
    await load.during(3_000);
    const before = await rendererSeconds(browser);
    await load.during(turn);
    const cores = ((await rendererSeconds(browser)) - before) / (turn / 1_000);
    report.figure(`renderer, ${name}`, [cores], "cores", { most: 0.3 });
    await viewer.close();
  }
  load.stop();
}

/** The memory of pages after a while, to that when they have all that they keep. */
async function heap(browser: Browser, hub: Hub): Promise<void> {
  const load = await Load.start(hub);
  // The rows of a tail are all there after a minute, and the 20,000 keys of the state, of which 200 come in a second, after two.
  await heapOf(browser, hub, load, "tail", `/topic?topic=${BUSY_TOPIC}`, 0);
  await heapOf(browser, hub, load, "state", `/topic?topic=${BUSY_TOPIC}&tab=state`, 120_000);
  load.stop();
}

async function heapOf(browser: Browser, hub: Hub, load: Load, name: string, screen: string, warmUpMs: number): Promise<void> {
  const minutes = quick ? 2 : 10;
  const viewer = await Viewer.open(browser, hub);
  await viewer.logIn(hub.token);
  await viewer.go(screen);
  await load.during(warmUpMs);
  const sizes: number[] = [];
  for (let minute = 0; minute < minutes; minute += 1) {
    // Growth from the first minute on is a leak.
    await load.during(60_000);
    const session = await viewer.session();
    await session.send("HeapProfiler.collectGarbage");
    sizes.push((await session.send("Runtime.getHeapUsage")).usedSize / (1 << 20));
  }
  await viewer.close();
  report.figure(`heap of a ${name}, minute by minute`, sizes, "MiB");
  report.figure(`heap of a ${name} after ${minutes} minutes, to the first`, [(sizes.at(-1) ?? 0) / (sizes[0] ?? 1)], "x", { most: 1.2 });
}

/** What ten viewers of the list of topics add to the hub. */
async function viewers(_: Browser, hub: Hub): Promise<void> {
  const load = await Load.start(hub);
  const turn = quick ? 5_000 : 20_000;
  const added: number[] = [];
  for (let round = 0; round < (quick ? 3 : 7); round += 1) {
    const without = await hubCores(hub, load, turn);
    const cancel = new AbortController();
    const streams = Array.from({ length: 10 }, (_, n) => follow(hub, n % 2 === 0 ? "topics" : "overview", cancel.signal));
    await load.during(2_000);
    const cores = await hubCores(hub, load, turn);
    cancel.abort();
    await Promise.all(streams);
    added.push(cores - without);
  }
  load.stop();
  report.figure("ten viewers add to the hub", added, "cores", { most: 0.05 });
}

/** A hundred thousand topics: how long the longest frame takes while they are read, filtered, sorted and scrolled. */
async function topics(browser: Browser, hub: Hub): Promise<void> {
  const count = quick ? MANY_TOPICS / 10 : MANY_TOPICS;
  const socket = await hub.socket();
  for (let from = 0; from < count; from += 1_000) {
    await socket.publish(Array.from({ length: 1_000 }, (_, n) => ({ topic: `many.t${String(from + n).padStart(6, "0")}`, payload: n })));
  }
  const viewer = await Viewer.open(browser, hub);
  await viewer.logIn(hub.token);
  await viewer.evaluate(FRAMES);
  const longest = async (name: string, act: () => Promise<void>) => {
    await viewer.evaluate("frames_.longest = 0; frames_.last = performance.now()");
    await act();
    report.figure(`${count} topics: longest frame while ${name}`, [await viewer.evaluate<number>("frames_.longest")], "ms", { most: 100 });
  };
  const shown = (text: string) => viewer.see(viewer.text(new RegExp(`^${text} topics?$`)));
  await longest("they are read", async () => {
    await viewer.go("/topics");
    await shown(count.toLocaleString("en-US"));
  });
  await longest("a filter is typed", async () => {
    await viewer.page.keyboard.press("/");
    await viewer.page.keyboard.type("t0099", { delay: 50 });
    await shown("100");
    for (let n = 0; n < 5; n += 1) await viewer.page.keyboard.press("Backspace");
    await shown(count.toLocaleString("en-US"));
  });
  await longest("they are sorted", async () => {
    await viewer.page.getByRole("button", { name: /^Events$/ }).click();
    await viewer.addressHas("sort=");
    await viewer.settled();
  });
  await longest("they are scrolled", async () => {
    await viewer.evaluate(`new Promise((done) => {
      const list = document.querySelector('[role="region"][aria-label="Topics"]');
      let step = 0;
      (function next() {
        list.scrollTop = (list.scrollHeight * step) / 200;
        step += 1;
        if (step > 200) done(); else requestAnimationFrame(next);
      })();
    })`);
  });
  await viewer.close();
}

/** Processor time of all renderers since the browser was started, in seconds. */
async function rendererSeconds(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo.filter(({ type }) => type === "renderer").reduce((sum, { cpuTime }) => sum + cpuTime, 0);
}

/** Cores that the hub takes over a time. */
async function hubCores(hub: Hub, load: Load, millis: number): Promise<number> {
  const before = await hubSeconds(hub);
  const from = performance.now();
  await load.during(millis);
  return ((await hubSeconds(hub)) - before) / ((performance.now() - from) / 1_000);
}

async function hubSeconds(hub: Hub): Promise<number> {
  const text = await readFile(`/proc/${hub.pid}/stat`, "utf8");
  // Behind the name of the program, which may have spaces in it.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Reads a live stream until it is cancelled. */
async function follow(hub: Hub, view: string, signal: AbortSignal): Promise<void> {
  try {
    const answer = await hub.ask(`/live?view=${view}`, { signal });
    if (!answer.ok || answer.body === null) throw new Error(`/live answered ${answer.status}`);
    for await (const _ of answer.body);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

const browser = await launch();
try {
  await main(browser);
} finally {
  await browser.close();
}
