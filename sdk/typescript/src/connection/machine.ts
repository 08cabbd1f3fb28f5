import { HubError } from "../errors.ts";
import { type ConnectionEffect, type ConnectionInput, type ConnectionState, type Probe, type Ready } from "./state.ts";

const TOKEN_TIMEOUT = 30_000;
const OPEN_TIMEOUT = 10_000;
const AUTH_TIMEOUT = 10_000;
const CLOSE_TIMEOUT = 5_000;
/** A connection over which nothing comes for so long is asked for a sign of life. */
const SILENCE = 25_000;
const PROBE_TIMEOUT = 5_000;
/** A connection that lasted so long makes the failures before it forgotten. */
const STABLE_AFTER = 5_000;
/** The least time between two attempts that waking up brings about. */
const WAKE_INTERVAL = 1_000;
/** The longest wait after a hub has said that it restarts. */
const RESTART_WAIT = 1_000;
/** The least wait, so that no draw of the jitter makes a loop without a pause. */
const LEAST_WAIT = 20;
const LEAST_RENEWAL = 1_000;
const LONGEST_RENEWAL_WAIT = 30_000;
const RENEW_AT = 0.8;

const SERVICE_RESTART = 1012;
const POLICY_VIOLATION = 1008;

/** What the machine needs to know of the world. */
export interface Surroundings {
  readonly now: number;
  /** From 0 to 1; drawn anew for every step. */
  readonly random: number;
  /** When the hub was last heard, and how many frames came over this connection. */
  readonly heard: Heard;
  /** The token comes from a function. */
  readonly canRenew: boolean;
  readonly backoff: { readonly first: number; readonly longest: number };
}

export interface Heard {
  readonly at: number;
  readonly frames: number;
}

/** A state and what to do on the way to it. */
export interface Step {
  readonly state: ConnectionState;
  readonly effects: readonly ConnectionEffect[];
}

/** The next state of a connection. Everything that a connection does is decided here; it has no other memory than its state. */
export function step(state: ConnectionState, input: ConnectionInput, world: Surroundings): Step {
  switch (input.on) {
    case "start":
      return state.is === "idle" ? fetchToken(0, state.fetch + 1, world) : stay(state);
    case "token":
      return tokenCame(state, input.fetch, world);
    case "token_failed":
      return tokenFailed(state, input.fetch, input.error, world);
    case "opened":
      if (state.is !== "opening") return stay(state);
      return to({ ...state, is: "authenticating", until: world.now + AUTH_TIMEOUT }, { do: "authenticate" });
    case "authenticated":
      return authenticated(state, input, world);
    case "refused":
      return refused(state, input.error, world);
    case "expired":
      if (state.is !== "ready") return stay(state);
      if (!world.canRenew) return end(input.error);
      return renew({ ...state, expired: true }, world);
    case "lost":
      return lost(state, input, world);
    case "time":
      return timePassed(state, world);
    case "wake":
      return wake(state, world);
    case "suspend":
      return suspend(state, world);
    case "unused":
      return state.is === "waiting" ? to({ is: "idle", fetch: state.fetch }) : stay(state);
    case "close":
      return close(state, world);
  }
}

/** When the machine wants to hear of the time; `Infinity` if never. */
export function deadline(state: ConnectionState, heard: Heard): number {
  switch (state.is) {
    case "idle":
    case "closed":
      return Infinity;
    case "ready":
      return Math.min(
        state.fetching ?? state.renewAt,
        isUnanswered(state.probe, heard) ? state.probe.until : heard.at + SILENCE,
      );
    case "token":
    case "opening":
    case "authenticating":
    case "waiting":
    case "closing":
      return state.until;
  }
}

function stay(state: ConnectionState): Step {
  return { state, effects: [] };
}

function to(state: ConnectionState, ...effects: ConnectionEffect[]): Step {
  return { state, effects };
}

function fetchToken(tries: number, fetch: number, world: Surroundings, refused?: HubError): Step {
  const { now } = world;
  const why = refused && { refused };
  return to(
    { is: "token", tries, began: now, until: now + TOKEN_TIMEOUT, fetch, ...why },
    { do: "fetch", fetch, ...why },
  );
}

function tokenCame(state: ConnectionState, fetch: number, world: Surroundings): Step {
  if (state.is === "token" && state.fetch === fetch) {
    return to({ ...state, is: "opening", until: world.now + OPEN_TIMEOUT }, { do: "open" });
  }
  if (state.is === "ready" && state.fetch === fetch && state.fetching !== undefined) {
    // `fetching` stays until the hub has answered.
    return to({ ...state, fetching: world.now + AUTH_TIMEOUT }, { do: "renew" });
  }
  return stay(state);
}

function tokenFailed(state: ConnectionState, fetch: number, error: HubError, world: Surroundings): Step {
  if (state.is === "token" && state.fetch === fetch) return wait(state, error, world);
  if (state.is === "ready" && state.fetch === fetch) return renewLater(state, world);
  return stay(state);
}

function authenticated(
  state: ConnectionState,
  input: Extract<ConnectionInput, { on: "authenticated" }>,
  world: Surroundings,
): Step {
  if (state.is !== "authenticating" && state.is !== "ready") return stay(state);
  const { now } = world;
  const renewed = state.is === "ready";
  const renewAt = world.canRenew ? now + Math.max(input.lifetimeMs * RENEW_AT, LEAST_RENEWAL) : Infinity;
  return to(
    {
      is: "ready",
      since: renewed ? state.since : now,
      tries: state.tries,
      fetch: state.fetch,
      renewAt,
      failedRenewals: 0,
      expired: false,
      ...(input.sub !== undefined && { sub: input.sub }),
      ...(input.exp !== undefined && { exp: input.exp }),
    },
    { do: "up", renewed },
  );
}

function refused(state: ConnectionState, error: HubError, world: Surroundings): Step {
  if (state.is === "ready") return renewLater(state, world);
  if (state.is !== "authenticating") return stay(state);
  if (!isAboutToken(error)) return wait(state, error, world, error.retryAfterMs);
  if (!world.canRenew) return end(error);
  if (state.refused !== undefined) return wait(state, error, world);
  const next = fetchToken(state.tries, state.fetch + 1, world, error);
  return { state: next.state, effects: [{ do: "drop", error }, ...next.effects] };
}

function lost(state: ConnectionState, input: Extract<ConnectionInput, { on: "lost" }>, world: Surroundings): Step {
  const { error, code, flooded } = input;
  switch (state.is) {
    case "opening":
    case "authenticating":
    case "ready": {
      if (isAboutToken(error) && !world.canRenew) return end(error);
      const { first, longest } = world.backoff;
      if (code === POLICY_VIOLATION && flooded) return wait(state, error, world, longest);
      const tries = triesOf(state, world);
      if (code === SERVICE_RESTART && tries === 0) {
        return wait(state, error, world, Math.min(Math.max(world.random * RESTART_WAIT, first), longest));
      }
      return wait(state, error, world);
    }
    case "closing":
      return to({ is: "closed" }, { do: "drop", error }, { do: "ended" });
    case "idle":
    case "token":
    case "waiting":
    case "closed":
      return stay(state);
  }
}

function timePassed(state: ConnectionState, world: Surroundings): Step {
  if (world.now < deadline(state, world.heard)) return stay(state);
  switch (state.is) {
    case "token":
      return wait(state, new HubError("token_failed", `the token function took over ${TOKEN_TIMEOUT / 1000} s`), world);
    case "opening":
      return wait(state, unreachable(`no connection within ${OPEN_TIMEOUT / 1000} s`), world);
    case "authenticating":
      return wait(state, unreachable(`no answer to AUTH within ${AUTH_TIMEOUT / 1000} s`), world);
    case "waiting":
      return fetchToken(state.tries, state.fetch + 1, world);
    case "closing":
      return to(
        { is: "closed" },
        { do: "drop", error: new HubError("closed", "the client is closed") },
        { do: "ended" },
      );
    case "ready":
      return readyTimePassed(state, world);
    case "idle":
    case "closed":
      return stay(state);
  }
}

function readyTimePassed(state: Ready, world: Surroundings): Step {
  const { now, heard } = world;
  if (now >= (state.fetching ?? Infinity)) return renewLater(state, world);
  if (state.fetching === undefined && now >= state.renewAt) return renew(state, world);
  if (isUnanswered(state.probe, heard)) {
    if (now < state.probe.until) return stay(state);
    return wait(state, unreachable(`no answer to PING within ${PROBE_TIMEOUT / 1000} s`), world);
  }
  return probe(state, world);
}

function probe(state: Ready, world: Surroundings): Step {
  const { now, heard } = world;
  return to({ ...state, probe: { frames: heard.frames, until: now + PROBE_TIMEOUT } }, { do: "probe" });
}

function isUnanswered(probe: Probe | undefined, heard: Heard): probe is Probe {
  return probe !== undefined && heard.frames <= probe.frames;
}

function renew(state: Ready, world: Surroundings): Step {
  if (state.fetching !== undefined || !world.canRenew) return stay(state);
  const fetch = state.fetch + 1;
  return to({ ...state, fetch, fetching: world.now + TOKEN_TIMEOUT }, { do: "fetch", fetch });
}

/** The token in force stays in force. Once it has ended, the hub closes the connection by itself. */
function renewLater(state: Ready, world: Surroundings): Step {
  const { fetching: _, ...rest } = state;
  const pause = Math.min(LEAST_RENEWAL * 2 ** state.failedRenewals, LONGEST_RENEWAL_WAIT);
  return to(
    { ...rest, failedRenewals: state.failedRenewals + 1, renewAt: world.now + pause },
    { do: "cancel_fetch" },
  );
}

function wake(state: ConnectionState, world: Surroundings): Step {
  const { now } = world;
  if (state.is === "waiting") {
    const until = Math.min(state.until, Math.max(now, state.began + WAKE_INTERVAL));
    return now >= until ? fetchToken(state.tries, state.fetch + 1, world) : to({ ...state, until });
  }
  if (state.is !== "ready") return stay(state);
  // The token may have ended while nothing ran: then it is renewed before anything else is tried with it.
  const renewing = now >= state.renewAt ? renew(state, world) : stay(state);
  const ready = renewing.state as Ready;
  if (isUnanswered(ready.probe, world.heard)) return renewing;
  const probing = probe(ready, world);
  return { state: probing.state, effects: [...renewing.effects, ...probing.effects] };
}

function suspend(state: ConnectionState, world: Surroundings): Step {
  const error = unreachable("the page was frozen");
  switch (state.is) {
    case "idle":
    case "closed":
    case "closing":
      return stay(state);
    case "waiting":
      return to({ ...state, until: Infinity });
    case "token":
    case "opening":
    case "authenticating":
    case "ready":
      return to(
        { is: "waiting", tries: 0, began: world.now - WAKE_INTERVAL, until: Infinity, fetch: state.fetch, error },
        { do: "cancel_fetch" },
        { do: "hand_back" },
        { do: "drop", error },
      );
  }
}

function close(state: ConnectionState, world: Surroundings): Step {
  switch (state.is) {
    case "closed":
    case "closing":
      return stay(state);
    case "ready":
      return to({ is: "closing", until: world.now + CLOSE_TIMEOUT }, { do: "cancel_fetch" }, { do: "hang_up" });
    case "idle":
    case "token":
    case "opening":
    case "authenticating":
    case "waiting":
      return to(
        { is: "closed" },
        { do: "cancel_fetch" },
        { do: "drop", error: new HubError("closed", "the client is closed") },
        { do: "ended" },
      );
  }
}

function end(error: HubError): Step {
  return to({ is: "closed", error }, { do: "cancel_fetch" }, { do: "drop", error }, { do: "ended", error });
}

type Failing = Exclude<ConnectionState, { is: "idle" | "waiting" | "closing" | "closed" }>;

/** Goes on after a pause: `pause` if it is given, else a random part of one that doubles with every failure. */
function wait(state: Failing, error: HubError, world: Surroundings, pause?: number): Step {
  const { now, random } = world;
  const { first, longest } = world.backoff;
  const tries = triesOf(state, world);
  const most = Math.min(first * 2 ** Math.min(tries, 30), longest);
  const jittered = Math.max(most * random, Math.min(LEAST_WAIT, longest));
  return to(
    {
      is: "waiting",
      tries: tries + 1,
      began: state.is === "ready" ? state.since : state.began,
      until: now + (pause ?? jittered),
      fetch: state.fetch,
      error,
    },
    { do: "cancel_fetch" },
    { do: "drop", error },
    { do: "failed", error },
  );
}

function triesOf(state: Failing, world: Surroundings): number {
  return state.is === "ready" && world.now - state.since >= STABLE_AFTER ? 0 : state.tries;
}

function isAboutToken(error: HubError): boolean {
  return /^(jwt_invalid|token_expired|token_revoked|no_token)$/.test(error.code);
}

function unreachable(why: string): HubError {
  return new HubError("connect_failed", why);
}
