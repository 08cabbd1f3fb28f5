import assert from "node:assert/strict";
import type { OpenSocket, WebSocketLike } from "../../src/socket.ts";
import { settle } from "./clock.ts";

/** A frame, either way. */
export type Frame = Record<string, unknown> & { op: string };

type Listeners = {
  open: (() => void)[];
  message: ((event: { data: unknown }) => void)[];
  error: ((event: object) => void)[];
  close: ((event: { code: number; reason: string }) => void)[];
};

/** One connection, seen from the server. */
export class FakeSocket implements WebSocketLike {
  readonly url: string;
  /** All that the client sent. */
  readonly received: Frame[] = [];
  #read = 0;
  #isOpen = false;
  isClosed = false;
  answersClose = true;
  readonly #listeners: Listeners = { open: [], message: [], error: [], close: [] };
  #onFrame: ((frame: Frame) => void) | undefined;

  constructor(url: string) {
    this.url = url;
  }

  addEventListener(type: keyof Listeners, listener: never): void {
    this.#listeners[type].push(listener);
  }

  send(data: string): void {
    assert.ok(this.#isOpen, "the client sent something over a connection that is not open");
    if (this.isClosed) return;
    const frame = JSON.parse(data) as Frame;
    this.received.push(frame);
    this.#onFrame?.(frame);
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.answersClose) queueMicrotask(() => this.cut(1000));
  }

  get listeners(): number {
    return Object.values(this.#listeners).reduce((sum, some) => sum + some.length, 0);
  }

  // What the test does.

  open(): void {
    this.#isOpen = true;
    for (const listener of this.#listeners.open) listener();
  }

  /** Answers frames by itself from now on. */
  answerBy(answer: (frame: Frame, socket: FakeSocket) => void): void {
    this.#onFrame = (frame) => answer(frame, this);
  }

  say(frame: object | string): void {
    const data = typeof frame === "string" ? frame : JSON.stringify(frame);
    for (const listener of this.#listeners.message) listener({ data });
  }

  /** Answers a request with OK. */
  ok(frame: Frame, fields: object = {}): void {
    this.say({ op: "OK", corr: frame["corr"], ...fields });
  }

  err(frame: Frame | undefined, code: string, fields: object = {}): void {
    this.say({ op: "ERR", ...(frame && { corr: frame["corr"] }), code, msg: `because of ${code}`, ...fields });
  }

  /** The connection ends; the client has not asked for it. */
  cut(code = 1006, reason = ""): void {
    this.isClosed = true;
    for (const listener of this.#listeners.close) listener({ code, reason });
  }

  fail(message: string): void {
    for (const listener of this.#listeners.error) listener({ message });
  }

  /** The next frame that was not read yet; of this op, if one is given, and then others before it are skipped. */
  async next(op?: string): Promise<Frame> {
    for (let turn = 0; turn < 50; turn++) {
      while (this.#read < this.received.length) {
        const frame = this.received[this.#read++] as Frame;
        if (op === undefined || frame.op === op) return frame;
      }
      await settle();
    }
    throw new Error(`no ${op ?? "frame"} came; the client sent ${JSON.stringify(this.received)}`);
  }

  /** Nothing of this op comes. */
  async silent(op?: string): Promise<void> {
    await settle();
    const rest = this.received.slice(this.#read).filter((frame) => op === undefined || frame.op === op);
    assert.deepEqual(rest, [], "the client sent something that was not expected");
  }
}

export const FEATURES = ["ordered", "ping", "return", "member", "coalesce"];

/** A server that a test scripts. Connections come in the order in which the client opened them. */
export class FakeServer {
  readonly sockets: FakeSocket[] = [];
  #taken = 0;

  open: OpenSocket = (url) => {
    const socket = new FakeSocket(url);
    this.sockets.push(socket);
    return socket;
  };

  /** The next connection, before it is open. */
  async connection(): Promise<FakeSocket> {
    for (let turn = 0; turn < 50; turn++) {
      const socket = this.sockets[this.#taken];
      if (socket !== undefined) {
        this.#taken++;
        return socket;
      }
      await settle();
    }
    throw new Error(`the client opened no further connection; ${this.#taken} were taken`);
  }

  /** The next connection, open, and its AUTH accepted. */
  async accept(fields: object = {}): Promise<FakeSocket> {
    const socket = await this.connection();
    socket.open();
    socket.ok(await socket.next("AUTH"), { features: FEATURES, ...fields });
    await settle();
    return socket;
  }
}

/** A delivery, as the hub sends it. */
export function eventFrame(
  topic: string,
  group: string | undefined,
  event: { id: string; seq?: number; key?: string; payload?: unknown; topic?: string },
  ctx: object = {},
): Frame {
  const record = { seq: 1, ts: 1_700_000_000_000, topic, payload: null, ...event };
  if (group === undefined) return { op: "EVENT", topic, event: record };
  return { op: "EVENT", topic, group, event: record, ctx: { attempt: 1, maxAttempts: 5, ack_deadline_ms: 30_000, ...ctx } };
}

/** UUIDs that a test can tell apart. */
export function uuid(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
}
