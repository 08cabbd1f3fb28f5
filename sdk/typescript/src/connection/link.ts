import type { Clock } from "../clock.ts";
import { HubError } from "../errors.ts";
import { type Answer, fieldsOf, type Incoming, refusalOf } from "../frames.ts";
import type { PageEvent, Platform } from "../platform.ts";
import type { WebSocketLike } from "../socket.ts";
import { deadline, IDLE, step } from "./machine.ts";
import type { ConnectionEffect, ConnectionInput, ConnectionState } from "./state.ts";
import { lifetimeOf, type TokenSource } from "./token.ts";

/** What the hub takes before it has looked at the token: 32 frames, none over 32 KiB. Some of that is left to itself. */
const EARLY_FRAMES = 24;
const EARLY_FRAME_CHARS = 8 << 10;

const TOO_LARGE = 1009;
const ABNORMAL = 1006;

/** Called with the answer, or with nothing if the connection was lost before. */
export type OnAnswer = (answer: Answer | undefined) => void;

export interface LinkOptions {
  readonly urls: readonly string[];
  readonly token: TokenSource;
  readonly backoff: { readonly first: number; readonly longest: number };
}

/** What the rest of the client is told. */
export interface LinkEvents {
  state(state: ConnectionState): void;
  /** Frames may be sent: those of subscriptions first, and then the publishes. Called again whenever more may be sent than before. */
  send(isNewConnection: boolean): void;
  /** The connection is gone, and with it all requests that were not answered. */
  down(): void;
  /** Before that: the hub refused to read a frame of this size. */
  tooLarge(): void;
  deliver(frame: Exclude<Incoming, Answer>): void;
  subscriptionEnded(topic: string, group: string | undefined, error: HubError): void;
  failed(error: HubError): void;
  handBack(): void;
  hidden(): void;
  ended(error: HubError | undefined): void;
  log(message: string, error: unknown): void;
}

/** The connection as the rest of the client uses it. */
export interface Link {
  readonly state: ConnectionState;
  /** Nobody sees the page: its timers cannot be trusted. */
  readonly isHidden: boolean;
  feed(input: ConnectionInput): void;
  /** Whether this may be sent now: what settles events may also be sent when the token has run out. */
  canSend(chars: number, settles?: boolean): boolean;
  has(feature: string): boolean;
  /** Sends a request, given as its fields without braces. Only after `canSend`. */
  ask(fields: string, onAnswer: OnAnswer): void;
}

/** Drives the state machine: the socket, the token, and the answers of one connection after the other. */
export function createLink(platform: Platform, clock: Clock, options: LinkOptions, events: LinkEvents): Link {
  let state = IDLE;
  let socket: WebSocketLike | undefined;
  let token: string | undefined;
  let fetching: AbortController | undefined;
  let unwatch: (() => void) | undefined;
  let features: readonly string[] = [];
  let answers = new Map<string, OnAnswer>();
  let corrs = 0;
  let attempts = 0;
  let earlyFrames = 0;
  let heard = { at: 0, frames: 0 };
  let flooded = false;
  let whyClosing: HubError | undefined;

  const inputs: ConnectionInput[] = [];
  let isStepping = false;
  let isHandingBack = false;
  let isHidden = false;
  const alarm = clock.alarm(() => feed({ on: "time" }));

  /** Inputs that come up while a step is carried out wait for its end. */
  function feed(input: ConnectionInput): void {
    inputs.push(input);
    if (isStepping) return;
    isStepping = true;
    for (let next = inputs.shift(); next !== undefined; next = inputs.shift()) {
      const world = {
        now: clock.now(),
        random: platform.random(),
        heard,
        canRenew: typeof options.token === "function",
        backoff: options.backoff,
      };
      const before = state;
      const result = step(state, next, world);
      state = result.state;
      for (const effect of result.effects) carryOut(effect);
      alarm.set(deadline(state, heard));
      if (state.is === "idle" || state.is === "closed") {
        unwatch?.();
        unwatch = undefined;
      } else {
        unwatch ??= platform.watchPage(onPage);
      }
      if (state !== before) events.state(state);
    }
    isStepping = false;
  }

  function onPage(event: PageEvent): void {
    if (event === "suspend" || event === "wake") return feed({ on: event });
    isHidden = event === "hidden";
    if (isHidden) events.hidden();
    else feed({ on: "wake" });
  }

  function carryOut(effect: ConnectionEffect): void {
    switch (effect.do) {
      case "fetch":
        return void fetchToken(effect.fetch, effect.refused);
      case "cancel_fetch":
        return fetching?.abort();
      case "open":
        return open();
      case "authenticate":
        authenticate("authenticating");
        return events.send(true);
      case "renew":
        return authenticate("ready");
      case "probe":
        return ask('"op":"PING"', () => undefined);
      case "up":
        return events.send(false);
      case "hand_back":
        isHandingBack = true;
        events.handBack();
        isHandingBack = false;
        return;
      case "hang_up":
        return socket?.close(1000);
      case "drop":
        return drop();
      case "failed":
        return events.failed(effect.error);
      case "ended":
        alarm.set(Infinity);
        return events.ended(effect.error);
    }
  }

  async function fetchToken(fetch: number, refused: HubError | undefined): Promise<void> {
    fetching?.abort();
    const own = (fetching = new AbortController());
    const { signal } = own;
    try {
      const source = options.token;
      // A fixed token needs no turn of the loop.
      const fetched = typeof source === "function" ? await source({ signal, ...(refused && { refused }) }) : source;
      if (signal.aborted) return;
      token = fetched;
      feed({ on: "token", fetch });
    } catch (cause) {
      if (signal.aborted) return;
      const error = new HubError("token_failed", `the token function threw ${String(cause)}`, { cause });
      feed({ on: "token_failed", fetch, error });
    }
  }

  function open(): void {
    const url = options.urls[attempts++ % options.urls.length] ?? "";
    let opened: WebSocketLike;
    heard = { at: clock.now(), frames: 0 };
    earlyFrames = EARLY_FRAMES;
    flooded = false;
    whyClosing = undefined;
    const lost = (code: number, why: string): void => {
      if (socket !== opened) return;
      if (code === TOO_LARGE && answers.size > 0) events.tooLarge();
      fail(`${url}: ${why}`, code);
    };
    try {
      socket = opened = platform.openSocket(url);
      opened.addEventListener("open", () => {
        if (socket === opened) feed({ on: "opened" });
      });
      opened.addEventListener("message", ({ data }) => {
        if (socket === opened && typeof data === "string") hear(data);
      });
      opened.addEventListener("error", (event) => {
        lost(ABNORMAL, "message" in event && event.message !== "" ? String(event.message) : "the connection failed");
      });
      opened.addEventListener("close", ({ code, reason }) => lost(code, `closed with ${code} ${reason}`));
    } catch (cause) {
      // For instance an address that is none, or something that is no socket.
      socket = undefined;
      fail(`${url}: ${String(cause)}`, ABNORMAL, cause);
    }
  }

  /** The connection is lost, or could not be made. */
  function fail(why: string, code: number, cause?: unknown): void {
    feed({ on: "lost", error: whyClosing ?? new HubError("connect_failed", why, { cause }), code, flooded });
  }

  function drop(): void {
    const dropped = socket;
    socket = undefined;
    dropped?.close(1000);
    const lost = answers;
    answers = new Map();
    if (dropped === undefined) return;
    for (const onAnswer of lost.values()) onAnswer(undefined);
    events.down();
  }

  function authenticate(expected: "authenticating" | "ready"): void {
    const sent = token;
    ask(fieldsOf({ op: "AUTH", ...(sent !== undefined && { token: sent }) }), (answer) => {
      if (answer === undefined || state.is !== expected) return;
      const error = refusalOf(answer);
      if (error !== undefined) return feed({ on: "refused", error });
      features = answer.features ?? [];
      const { sub, exp } = answer;
      feed({ on: "authenticated", sub, exp, lifetimeMs: lifetimeOf(sent, exp, platform.wall()) });
    });
  }

  function hear(data: string): void {
    heard = { at: clock.now(), frames: heard.frames + 1 };
    let frame: Incoming;
    try {
      // Whatever is no object has no op.
      frame = (JSON.parse(data) ?? {}) as Incoming;
    } catch (error) {
      return events.log("a frame that is not JSON was ignored", error);
    }
    switch (frame.op) {
      case "EVENT":
      case "EVENTS":
      case "LAGGED":
        return events.deliver(frame);
      case "OK":
      case "ERR":
        return hearAnswer(frame);
    }
  }

  function hearAnswer(answer: Answer): void {
    if (answer.code === "rate_limited") flooded = true;
    const onAnswer = answer.corr === undefined ? undefined : answers.get(answer.corr);
    if (onAnswer !== undefined) {
      answers.delete(answer.corr ?? "");
      return onAnswer(answer);
    }
    const error = refusalOf(answer);
    if (error === undefined) return;
    if (answer.topic !== undefined) return events.subscriptionEnded(answer.topic, answer.group, error);
    if (error.code === "token_expired") return feed({ on: "expired", error });
    // The hub is about to close the connection, and says why.
    whyClosing = error;
    events.log("the hub reports an error", error);
  }

  function canSend(chars: number, settles = false): boolean {
    if (state.is === "ready") return settles || !state.expired;
    if (isHandingBack) return true;
    return state.is === "authenticating" && earlyFrames > 0 && chars <= EARLY_FRAME_CHARS;
  }

  function ask(fields: string, onAnswer: OnAnswer): void {
    const corr = (++corrs).toString(36);
    answers.set(corr, onAnswer);
    earlyFrames--;
    const used = socket;
    try {
      used?.send(`{"corr":"${corr}",${fields}}`);
    } catch (cause) {
      // The caller is not done yet.
      platform.defer(() => {
        if (socket === used) fail(`cannot send: ${String(cause)}`, ABNORMAL, cause);
      });
    }
  }

  return {
    get state() {
      return state;
    },
    get isHidden() {
      return isHidden;
    },
    feed,
    canSend,
    has: (feature) => features.includes(feature),
    ask,
  };
}
