import type { HubState } from "./state.ts";
import type { TokenSource } from "./connection/token.ts";
import type { PendingLimits } from "./publish/publisher.ts";
import type { OpenSocket } from "./socket.ts";
import type { Lagged } from "./consume/types.ts";
import type { AnyTopics } from "./topics.ts";
import type { Validators } from "./validate.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** What a client tells its program. */
export interface ClientEvents {
  state?(state: HubState): void;
  /** A reader without a group has missed events. */
  lagged?(lagged: Lagged): void;
  /** Left out, warnings and errors go to the console. Fields have no payloads and no tokens. */
  log?(level: LogLevel, message: string, fields: Readonly<Record<string, unknown>>): void;
  /** `publish_ms` (answered after), `handled` and `failed` (1 each), `connected` and `connection_lost` (1 each). */
  metric?(name: string, value: number): void;
}

export interface ClientOptions<Topics extends object = AnyTopics> {
  /** Addresses of hubs, tried in turn: `ws://…` or `wss://…`. */
  urls: readonly string[];
  /**
   * A token, or a function that gets one: before each connection, and when the one in force is near its end. Left out where a
   * client certificate says it all.
   */
  token?: TokenSource;
  /** Opens the socket. Left out: the class `WebSocket` of the platform, under Node that of the package `ws`. */
  webSocket?: OpenSocket;
  /** Publishes that wait for their answers; 10,000 events and 16 MiB, and what is too much waits. */
  pending?: Partial<PendingLimits>;
  /** The wait before the second attempt to connect, which doubles from then on, and the longest one; 100 ms and 10 s. */
  backoff?: { first?: number; longest?: number };
  /** How long a publish is tried before it is rejected with `unavailable`; 60 s. */
  publishTimeoutMs?: number;
  /** Checks payloads before they are published, and before they are handled. */
  validate?: Validators<Topics>;
  on?: ClientEvents;
}

/** The options with their defaults. Throws a TypeError that says what is wrong. */
export function resolveOptions(options: ClientOptions): ResolvedOptions {
  const { urls, token, pending = {}, backoff = {}, publishTimeoutMs = 60_000, on = {} } = options;
  if (urls.length === 0) throw new TypeError("urls is empty; give at least one address");
  for (const url of urls) {
    if (!/^wss?:\/\/./.test(url)) throw new TypeError(`url "${url}": an address that begins with ws:// or wss:// is allowed`);
  }
  const { events = 10_000, bytes = 16 << 20, whenFull = "wait" } = pending;
  const { first = 100, longest = 10_000 } = backoff;
  for (const [name, value] of Object.entries({ "pending.events": events, "pending.bytes": bytes, publishTimeoutMs, first, longest })) {
    if (!(value > 0)) throw new TypeError(`${name} ${String(value)}: a number above 0 is allowed`);
  }
  return {
    link: { urls, token, backoff: { first: Math.min(first, longest), longest } },
    publisher: { pending: { events, bytes, whenFull }, timeoutMs: publishTimeoutMs },
    on,
  };
}

export interface ResolvedOptions {
  readonly link: { urls: readonly string[]; token: TokenSource; backoff: { first: number; longest: number } };
  readonly publisher: { pending: PendingLimits; timeoutMs: number };
  readonly on: ClientEvents;
}

