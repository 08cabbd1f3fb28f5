// A consumer with an inbox, as a process that a test stops at a step, kills, or lets go on. It tells what it does in lines of JSON.

import { readSync, writeSync } from "node:fs";
import { PromClient } from "../../../src/node.ts";
import { type BaseKind, openBase, type Step } from "./bases.ts";

export interface ConsumerOptions {
  kind: BaseKind;
  /** Of the database. */
  base: string;
  hub: string;
  token: string;
  topic: string;
  form: "transactional" | "plain";
  /** The first event stops here until a line comes in. */
  stop?: Step | undefined;
  /** What is published by the outbox for each event. */
  out?: string;
  ackTimeoutMs?: number;
  autoExtend?: false;
  maxAttempts?: number;
  concurrency?: number;
}

/** What the process tells. */
export type Told = { is: "ready" } | { is: "stopped"; at: Step } | { is: "delivered" | "run" | "done"; id: string } | { is: "log"; message: string };

const { kind, base: url, hub, token, topic, form, stop, out, ...subscription } = JSON.parse(process.argv[2] ?? "") as ConsumerOptions;
let isStopping = stop !== undefined;

/** At once, also if the process is stopped or killed in the next moment. */
function tell(what: Told): void {
  writeSync(1, `${JSON.stringify(what)}\n`);
}

/** Stops the whole process: no heartbeat, no ack, nothing goes on. */
function step(at: Step): void {
  if (!isStopping || at !== stop) return;
  isStopping = false;
  tell({ is: "stopped", at });
  readSync(0, Buffer.alloc(1));
}

const base = openBase(kind, url);
const log = (_: unknown, message: string, { error }: Readonly<Record<string, unknown>>): void => tell({ is: "log", message: `${message} ${error instanceof Error ? error.message : ""}` });
const handler = base[form]({ consumer: "worker", log }, {
  step,
  rows: (event) => {
    tell({ is: "run", id: event.id });
    return out === undefined ? [] : [{ topic: out, payload: event.payload, key: event.key ?? "none" }];
  },
});
const client = new PromClient({ urls: [hub], token, on: { log } });
await client.subscribe(
  topic,
  "workers",
  async (event, ctx) => {
    tell({ is: "delivered", id: event.id });
    const result = await handler(event, ctx);
    step("ack");
    tell({ is: "done", id: event.id });
    return result;
  },
  { from: "earliest", ...subscription },
);
tell({ is: "ready" });
