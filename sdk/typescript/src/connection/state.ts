import type { HubError } from "../errors.ts";

/** A connection: where it stands. Times are in milliseconds since 1970. */
export type ConnectionState = Idle | FetchingToken | Opening | Authenticating | Ready | Waiting | Closing | Closed;

interface Common {
  /** Until when it may stay there; then the machine wants to hear of the time. */
  readonly until: number;
  /** Failures in a row; they make the next wait longer. */
  readonly tries: number;
  /** When this attempt began; of a connection that is ready, since when it is. */
  readonly began: number;
  /** The number of the last fetch of a token: what comes of an earlier one is not used. */
  readonly fetch: number;
}

/** Nothing was asked of the client yet, or nothing any more. */
export interface Idle extends Common {
  readonly is: "idle";
}

interface Trying extends Common {
  /** Why the token before this one was refused. A second refusal in a row waits. */
  readonly refused: HubError | undefined;
}

/** A token is on its way. It comes before the socket, because the hub gives a socket 10 s to say who it is. */
export interface FetchingToken extends Trying {
  readonly is: "token";
}

export interface Opening extends Trying {
  readonly is: "opening";
}

/** AUTH is sent, and with it what should be carried out right behind it. */
export interface Authenticating extends Trying {
  readonly is: "authenticating";
}

export interface Ready extends Common {
  readonly is: "ready";
  /** Whom the token speaks for. */
  readonly sub: string | undefined;
  /** When the token ends, in seconds since 1970. */
  readonly exp: number | undefined;
  /** When to get the next token; `Infinity` if it does not end, or is the only one there is. */
  readonly renewAt: number;
  /** A token is on its way. Then `renewAt` is when to give it up. */
  readonly isRenewing: boolean;
  /** Renewals in a row that failed. */
  readonly failedRenewals: number;
  /** The hub says that the token has ended: nothing but settling is allowed until it is renewed. */
  readonly expired: boolean;
  /** A PING is out. */
  readonly probe: Probe | undefined;
}

/** Answered by whatever comes after the first `frames` frames; if nothing does until then, the connection is dead. */
export interface Probe {
  readonly frames: number;
  readonly until: number;
}

/** `until` is `Infinity` while the page is frozen. */
export interface Waiting extends Common {
  readonly is: "waiting";
  readonly error: HubError;
}

/** The closing handshake. */
export interface Closing extends Common {
  readonly is: "closing";
}

export interface Closed extends Common {
  readonly is: "closed";
  /** Why, if nobody asked for it. */
  readonly error: HubError | undefined;
}

/** What happens to a connection. */
export type ConnectionInput =
  | { readonly on: "start" }
  | { readonly on: "token"; readonly fetch: number }
  | { readonly on: "token_failed"; readonly fetch: number; readonly error: HubError }
  | { readonly on: "opened" }
  | { readonly on: "authenticated"; readonly sub: string | undefined; readonly exp: number | undefined; readonly lifetimeMs: number }
  /** The hub did not take the AUTH. */
  | { readonly on: "refused"; readonly error: HubError }
  | { readonly on: "expired"; readonly error: HubError }
  /** The socket has closed. `flooded`: after the hub had asked for less. */
  | { readonly on: "lost"; readonly error: HubError; readonly code: number; readonly flooded: boolean }
  | { readonly on: "time" }
  /** The network is back, the page is visible again, or the clock has jumped. */
  | { readonly on: "wake" }
  /** The page is about to be frozen. */
  | { readonly on: "suspend" }
  /** Nobody needs the connection: there is nothing to connect for. */
  | { readonly on: "unused" }
  | { readonly on: "close" };

/** What has to be done about it, in this order. */
export type ConnectionEffect =
  | { readonly do: "fetch"; readonly fetch: number; readonly refused: HubError | undefined }
  | { readonly do: "cancel_fetch" }
  | { readonly do: "open" }
  | { readonly do: "authenticate" }
  | { readonly do: "renew" }
  | { readonly do: "probe" }
  /** The connection is up, or its token is renewed. */
  | { readonly do: "up" }
  /** Gives back what the hub has handed out, and says so to nobody here. */
  | { readonly do: "hand_back" }
  /** Closes the socket and forgets it. */
  | { readonly do: "drop" }
  /** Begins the closing handshake. */
  | { readonly do: "hang_up" }
  /** An attempt has failed; another one follows. */
  | { readonly do: "failed"; readonly error: HubError }
  /** It is over for good. */
  | { readonly do: "ended"; readonly error: HubError | undefined };
