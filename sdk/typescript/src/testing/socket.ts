// Both ends of a connection: the client's, which is like a WebSocket, and the hub's.

import type { WebSocketLike } from "../socket.ts";
import type { Link } from "./session/session.ts";
import type { Wire } from "./wire.ts";

const CONNECTING = 0;
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

const ABNORMAL = 1006;
const NO_STATUS = 1005;

type Type = "open" | "message" | "error" | "close";
/** All that an event of a socket may have; which it has, its type says. */
interface SocketEvent {
  readonly data: unknown;
  readonly code: number;
  readonly reason: string;
  readonly wasClean: boolean;
}

type Listener = (event: SocketEvent) => void;

/** The hub's end, as the client's end tells it what happens. */
export interface HubEnd {
  /** A frame came; undefined is a binary one. */
  hear(text: string | undefined): void;
  /** The client is gone. */
  gone(): void;
}

/** Opens the hub's end of a connection; undefined if the hub takes none. */
export type Accept = (link: Link) => HubEnd | undefined;

/** The client's end: what `WebSocketLike` asks for, and the properties that code for browsers uses. */
export class MemorySocket implements WebSocketLike {
  readonly url: string;
  onopen: Listener | null = null;
  onmessage: Listener | null = null;
  onerror: Listener | null = null;
  onclose: Listener | null = null;
  readyState = CONNECTING;
  readonly bufferedAmount = 0;
  binaryType = "blob";
  private readonly wire: Wire;
  private readonly listeners = new Map<Type, Listener[]>();
  private hub: HubEnd | undefined;
  /** The connection was cut: what is on the way does not arrive. */
  private isCut = false;

  constructor(url: string, wire: Wire, accept: Accept) {
    this.url = url;
    this.wire = wire;
    wire.post(() => this.open(accept));
  }

  addEventListener(type: Type, listener: Listener): void {
    this.listeners.set(type, [...(this.listeners.get(type) ?? []), listener]);
  }

  removeEventListener(type: Type, listener: Listener): void {
    this.listeners.set(type, (this.listeners.get(type) ?? []).filter((other) => other !== listener));
  }

  send(data: string | ArrayBufferLike | ArrayBufferView): void {
    if (this.readyState === CONNECTING) throw new Error("the socket is not open yet: send when it has said `open`");
    if (this.readyState !== OPEN) return;
    const text = typeof data === "string" ? data : undefined;
    this.wire.post(() => {
      if (!this.isCut) this.hub?.hear(text);
    });
  }

  close(code = NO_STATUS, reason = ""): void {
    if (this.readyState === CLOSING || this.readyState === CLOSED) return;
    const wasOpen = this.readyState === OPEN;
    this.readyState = CLOSING;
    this.wire.post(() => {
      this.hub?.gone();
      this.wire.post(() => this.ended(wasOpen ? code : ABNORMAL, reason, wasOpen));
    });
  }

  /** Cuts the connection: nothing that is on the way arrives, at neither end. */
  cut(): void {
    if (this.readyState === CLOSED) return;
    this.isCut = true;
    this.hub?.gone();
    this.readyState = CLOSING;
    this.wire.post(() => this.ended(ABNORMAL, "", false));
  }

  private open(accept: Accept): void {
    if (this.readyState !== CONNECTING) return;
    this.hub = accept({
      send: (text) => this.arrive(() => this.emit("message", { data: text })),
      close: (code, reason) => this.arrive(() => this.ended(code, reason, true)),
    });
    if (!this.hub) return this.ended(ABNORMAL, "", false);
    this.readyState = OPEN;
    this.emit("open", {});
  }

  /** What the hub sends comes in a turn of its own, unless the connection is cut before. */
  private arrive(deliver: () => void): void {
    this.wire.post(() => {
      if (!this.isCut && (this.readyState === OPEN || this.readyState === CLOSING)) deliver();
    });
  }

  private ended(code: number, reason: string, wasClean: boolean): void {
    if (this.readyState === CLOSED) return;
    this.readyState = CLOSED;
    if (!wasClean) this.emit("error", {});
    this.emit("close", { code, reason, wasClean });
  }

  private emit(type: Type, more: Partial<SocketEvent>): void {
    const event = { data: undefined, code: NO_STATUS, reason: "", wasClean: false, ...more };
    const own = { open: this.onopen, message: this.onmessage, error: this.onerror, close: this.onclose }[type];
    for (const listener of [...(own ? [own] : []), ...(this.listeners.get(type) ?? [])]) listener(event);
  }
}
