import { HubError } from "../errors.ts";
import type { ConnectionEffect, ConnectionInput, ConnectionState, Ready } from "./state.ts";

const TOKEN_TIMEOUT = 30_000;
const OPEN_TIMEOUT = 10_000;
const AUTH_TIMEOUT = 10_000;
const CLOSE_TIMEOUT = 5_000;
const PROBE_TIMEOUT = 5_000;
/** A connection over which nothing comes for so long is asked for a sign of life. */
const SILENCE = 25_000;
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

/** The first state. */
export const IDLE: ConnectionState = { is: "idle", until: Infinity, tries: 0, began: 0, fetch: 0 };

const DROP: ConnectionEffect = { do: "drop" };
const CANCEL: ConnectionEffect = { do: "cancel_fetch" };

/** When the machine wants to hear of the time; `Infinity` if never. */
export function deadline(state: ConnectionState, heard: Heard): number {
  if (state.is !== "ready") return state.until;
  return Math.min(state.renewAt, isProbing(state, heard) ? state.probe.until : heard.at + SILENCE);
}

/** A PING is out and nothing was heard since. */
function isProbing(state: Ready, heard: Heard): state is Ready & { probe: object } {
  return state.probe !== undefined && heard.frames <= state.probe.frames;
}

/** The next state of a connection. Everything that a connection does is decided here; it has no other memory than its state. */
export function step(state: ConnectionState, input: ConnectionInput, world: Surroundings): Step {
  const { now, random, heard, canRenew, backoff } = world;
  const { first, longest } = backoff;
  const { began, fetch } = state;
  const isStable = state.is === "ready" && now - began >= STABLE_AFTER;
  const tries = isStable ? 0 : state.tries;

  const to = (next: ConnectionState, ...effects: ConnectionEffect[]): Step => ({ state: next, effects });
  const stay = to(state);

  const fetchToken = (refused?: HubError): Step =>
    to(
      { is: "token", until: now + TOKEN_TIMEOUT, tries, began: now, fetch: fetch + 1, refused },
      { do: "fetch", fetch: fetch + 1, refused },
    );

  /** Goes on after a pause: this one at least, and a random part of one that doubles with every failure. */
  const wait = (error: HubError, pause = 0): Step => {
    const most = Math.min(first * 2 ** Math.min(tries, 30), longest);
    const until = now + Math.max(pause, most * random, Math.min(LEAST_WAIT, longest));
    return to({ is: "waiting", until, tries: tries + 1, began, fetch, error }, CANCEL, DROP, { do: "failed", error });
  };
  const timedOut = (what: string, ms: number, code = "connect_failed"): Step =>
    wait(new HubError(code, `no ${what} within ${ms / 1000} s`));

  const end = (error?: HubError): Step =>
    to({ is: "closed", until: Infinity, tries, began, fetch, error }, CANCEL, DROP, { do: "ended", error });

  const renew = (ready: Ready): Step =>
    ready.isRenewing || !canRenew
      ? to(ready)
      : to(
          { ...ready, fetch: fetch + 1, renewAt: now + TOKEN_TIMEOUT, isRenewing: true },
          { do: "fetch", fetch: fetch + 1, refused: undefined },
        );

  /** The token in force stays in force. Once it has ended, the hub closes the connection by itself. */
  const renewLater = (ready: Ready): Step => {
    const { failedRenewals } = ready;
    const renewAt = now + Math.min(LEAST_RENEWAL * 2 ** failedRenewals, LONGEST_RENEWAL_WAIT);
    return to({ ...ready, renewAt, isRenewing: false, failedRenewals: failedRenewals + 1 }, CANCEL);
  };

  const probe = (ready: Ready): Step =>
    to({ ...ready, probe: { frames: heard.frames, until: now + PROBE_TIMEOUT } }, { do: "probe" });

  switch (input.on) {
    case "start":
      return state.is === "idle" ? fetchToken() : stay;

    case "token":
      if (input.fetch !== fetch) return stay;
      if (state.is === "token") return to({ ...state, is: "opening", until: now + OPEN_TIMEOUT }, { do: "open" });
      // The renewal is over when the hub has answered.
      if (state.is !== "ready" || !state.isRenewing) return stay;
      return to({ ...state, renewAt: now + AUTH_TIMEOUT }, { do: "renew" });

    case "token_failed":
      if (input.fetch !== fetch) return stay;
      if (state.is === "token") return wait(input.error);
      return state.is === "ready" ? renewLater(state) : stay;

    case "opened":
      if (state.is !== "opening") return stay;
      return to({ ...state, is: "authenticating", until: now + AUTH_TIMEOUT }, { do: "authenticate" });

    case "authenticated": {
      if (state.is !== "authenticating" && state.is !== "ready") return stay;
      const { sub, exp, lifetimeMs } = input;
      const since = state.is === "ready" ? began : now;
      const renewAt = canRenew ? now + Math.max(lifetimeMs * RENEW_AT, LEAST_RENEWAL) : Infinity;
      const renewal = { renewAt, isRenewing: false, failedRenewals: 0, expired: false, probe: undefined };
      return to({ is: "ready", until: Infinity, tries: state.tries, began: since, fetch, sub, exp, ...renewal }, { do: "up" });
    }

    case "refused": {
      const { error } = input;
      if (state.is === "ready") return renewLater(state);
      if (state.is !== "authenticating") return stay;
      if (!isAboutToken(error)) return wait(error, error.retryAfterMs);
      if (!canRenew) return end(error);
      if (state.refused !== undefined) return wait(error);
      const next = fetchToken(error);
      return to(next.state, DROP, ...next.effects);
    }

    case "expired":
      if (state.is !== "ready") return stay;
      return canRenew ? renew({ ...state, expired: true }) : end(input.error);

    case "lost": {
      const { error, code } = input;
      if (state.is === "closing") return end();
      if (state.is !== "opening" && state.is !== "authenticating" && state.is !== "ready") return stay;
      if (isAboutToken(error) && !canRenew) return end(error);
      if (code === POLICY_VIOLATION && input.flooded) return wait(error, longest);
      const isRestart = code === SERVICE_RESTART && tries === 0;
      return wait(error, isRestart ? Math.min(Math.max(random * RESTART_WAIT, first), longest) : undefined);
    }

    case "time":
      if (now < deadline(state, heard)) return stay;
      switch (state.is) {
        case "token":
          return timedOut("token", TOKEN_TIMEOUT, "token_failed");
        case "opening":
          return timedOut("connection", OPEN_TIMEOUT);
        case "authenticating":
          return timedOut("answer to AUTH", AUTH_TIMEOUT);
        case "waiting":
          return fetchToken();
        case "ready":
          if (now >= state.renewAt) return state.isRenewing ? renewLater(state) : renew(state);
          return isProbing(state, heard) ? timedOut("answer to PING", PROBE_TIMEOUT) : probe(state);
        case "closing":
          return end();
        case "idle":
        case "closed":
          return stay;
      }
      break;

    case "wake": {
      if (state.is === "waiting") {
        const until = Math.min(state.until, Math.max(now, began + WAKE_INTERVAL));
        return now >= until ? fetchToken() : to({ ...state, until });
      }
      if (state.is !== "ready") return stay;
      // The token may have ended while nothing ran: then it is renewed before anything else is tried with it.
      const renewing = now >= state.renewAt ? renew(state) : stay;
      if (isProbing(state, heard)) return renewing;
      const probing = probe(renewing.state as Ready);
      return to(probing.state, ...renewing.effects, ...probing.effects);
    }

    case "suspend": {
      if (state.is === "idle" || state.is === "closing" || state.is === "closed") return stay;
      const error = new HubError("connect_failed", "the page was frozen");
      const waiting: ConnectionState = { is: "waiting", until: Infinity, tries: 0, began: 0, fetch, error };
      return to(waiting, CANCEL, { do: "hand_back" }, DROP);
    }

    case "unused":
      return state.is === "waiting" ? to({ ...IDLE, fetch }) : stay;

    case "close":
      if (state.is === "closing" || state.is === "closed") return stay;
      if (state.is !== "ready") return end();
      return to({ is: "closing", until: now + CLOSE_TIMEOUT, tries, began, fetch }, CANCEL, { do: "hang_up" });
  }
}

function isAboutToken(error: HubError): boolean {
  return /^(jwt_invalid|token_expired|token_revoked|no_token)$/.test(error.code);
}
