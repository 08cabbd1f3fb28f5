// A connection to a hub in memory that is driven by frames.

import assert from "node:assert/strict";
import type { MemoryHub, MemorySocket, TokenClaims } from "../../src/testing/index.ts";

/** What tests look at in a frame. */
export interface Frame {
  op: string;
  corr?: string;
  code?: string;
  msg?: string;
  topic?: string;
  group?: string;
  id?: string;
  seq?: number;
  duplicate?: boolean;
  durable?: string;
  missed?: number;
  held?: string[];
  retry_after_ms?: number;
  results?: { id?: string; seq?: number; code?: string }[];
  event?: { id: string; seq: number; topic: string; key?: string; payload: unknown };
  ctx?: { attempt: number; maxAttempts: number; ack_deadline_ms: number; epoch?: number };
  events?: { event: { seq: number; payload: unknown } }[];
}

export class FrameClient {
  readonly hub: MemoryHub;
  readonly socket: MemorySocket;
  readonly texts: string[] = [];
  closed: number | undefined;
  private corrs = 0;

  private constructor(hub: MemoryHub) {
    this.hub = hub;
    this.socket = hub.webSocket(hub.url);
    this.socket.addEventListener("message", ({ data }) => this.texts.push(String(data)));
    this.socket.addEventListener("close", ({ code }) => (this.closed = code));
  }

  /** A connection that says nothing by itself. */
  static async stranger(hub: MemoryHub): Promise<FrameClient> {
    const client = new FrameClient(hub);
    await hub.idle();
    return client;
  }

  /** A connection with a token; one that may do everything unless it is said. */
  static async connect(hub: MemoryHub, claims?: TokenClaims): Promise<FrameClient> {
    const client = await FrameClient.stranger(hub);
    const answer = await client.ask({ op: "AUTH", token: hub.token(claims) });
    assert.equal(answer.op, "OK", JSON.stringify(answer));
    return client;
  }

  send(frame: object): void {
    this.socket.send(JSON.stringify(frame));
  }

  /** The answer to a request. Events that come before it stay. */
  async ask(frame: object): Promise<Frame> {
    this.corrs += 1;
    const corr = `ask-${this.corrs}`;
    this.send({ ...frame, corr });
    await this.hub.idle();
    const at = this.texts.findIndex((text) => (JSON.parse(text) as Frame).corr === corr);
    assert.ok(at >= 0, `no answer to ${JSON.stringify(frame)}`);
    return JSON.parse(this.texts.splice(at, 1)[0] ?? "") as Frame;
  }

  /** Subscribes, and has to be allowed to. */
  async subscribe(topic: string, group?: string, opts: object = {}): Promise<void> {
    const answer = await this.ask({ op: "SUBSCRIBE", topic, group, opts });
    assert.equal(answer.op, "OK", JSON.stringify(answer));
  }

  /** The frames that have come by now. */
  async frames(): Promise<Frame[]> {
    await this.hub.idle();
    return this.texts.splice(0).map((text) => JSON.parse(text) as Frame);
  }

  /** What has come by now, as `payload` or `payload/attempt`. */
  async payloads(): Promise<string[]> {
    const frames = await this.frames();
    return frames.map(({ op, code, event, ctx }) => {
      if (op !== "EVENT") return code ?? op;
      const payload = JSON.stringify(event?.payload);
      return ctx && ctx.attempt > 1 ? `${payload}/${ctx.attempt}` : payload;
    });
  }

  /** The id of an event of a topic. */
  idOf(topic: string, seq: number): string {
    return this.hub.events(topic)[seq - 1]?.id ?? "";
  }
}
