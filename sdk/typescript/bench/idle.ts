// What clients cost that have nothing to do: 10,000 of them in one process, each connected to a server in this process. Prints the CPU seconds of 20 s
// and how many timers there are. No hub is needed: the sockets are objects that answer AUTH and PING.
import { getActiveResourcesInfo } from "node:process";
import { PromClient, type WebSocketLike } from "../src/node.ts";

const CLIENTS = Number(process.env["EVENT_HUB_BENCH_CLIENTS"] ?? 10_000);
const SECONDS = Number(process.env["EVENT_HUB_BENCH_SECONDS"] ?? 20);
/** Of 20 s, on one core. */
const MOST_CPU_SECONDS = 2;

let pings = 0;

function openSocket(): WebSocketLike {
  const listeners: Record<string, (event: never) => void> = {};
  const say = (frame: object): void => queueMicrotask(() => listeners["message"]?.({ data: JSON.stringify(frame) } as never));
  queueMicrotask(() => listeners["open"]?.(undefined as never));
  return {
    send(data) {
      const { op, corr } = JSON.parse(data) as { op: string; corr: string };
      if (op === "PING") pings++;
      say({ op: "OK", corr });
    },
    close: () => queueMicrotask(() => listeners["close"]?.({ code: 1000, reason: "" } as never)),
    addEventListener(type: string, listener: (event: never) => void) {
      listeners[type] = listener;
    },
  };
}

const clients = Array.from({ length: CLIENTS }, () => new PromClient({ urls: ["ws://idle.test"], token: "t", webSocket: openSocket }));
await Promise.all(clients.map((client) => client.connect()));
const subscriptions = clients.map((client) => client.subscribe("orders", "g", () => undefined));
await Promise.all(subscriptions);
const before = process.cpuUsage();
await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
const { user, system } = process.cpuUsage(before);
const cpu = (user + system) / 1e6;
const timers = getActiveResourcesInfo().filter((name) => name === "Timeout").length;
const memory = Math.round(process.memoryUsage().heapUsed / CLIENTS);
console.log(`${CLIENTS} idle clients: ${cpu.toFixed(2)} CPU seconds in ${SECONDS} s, ${pings} pings, ${timers} timers, ${memory} bytes of heap each`);
await Promise.all(clients.map((client) => client.close({ timeoutMs: 0 })));
if ((cpu * 20) / SECONDS > MOST_CPU_SECONDS) process.exitCode = 1;
