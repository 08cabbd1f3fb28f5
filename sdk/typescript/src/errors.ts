import type { Receipt } from "./types.ts";

/** What a hub says; see docs/protocol.md. */
export type HubCode =
  | "already_subscribed"
  | "bad_json"
  | "bad_request"
  | "forbidden"
  | "group_conflict"
  | "id_conflict"
  | "internal"
  | "jwt_invalid"
  | "no_token"
  | "not_subscribed"
  | "quota_exceeded"
  | "rate_limited"
  | "schema_violation"
  | "token_expired"
  | "token_revoked"
  | "too_large"
  | "unauthorized"
  | "unavailable"
  | "unknown_id"
  | "unknown_op";

/**
 * What the client says by itself.
 *
 * - `closed`: the client or the subscription is closed.
 * - `connect_failed`: no connection, or it was lost, or a file of the client cannot be loaded; the message says why.
 * - `lease_lost`: the event is no longer in the hands of this handler.
 * - `not_durable`: the event is stored, but less safely than `require` asks for; see `receipt`.
 * - `queue_full`: more publishes wait than `pending` allows.
 * - `token_failed`: the token function threw, or took too long.
 */
export type ClientCode = "closed" | "connect_failed" | "lease_lost" | "not_durable" | "queue_full" | "token_failed";

/** The code of a {@link HubError}. Hubs newer than this client may have others. */
export type ErrorCode = HubCode | ClientCode | (string & {});

/** What a {@link HubError} carries beside its code. */
export interface ErrorDetails {
  /** The event that the error is about. After `unavailable` it may be stored or not, and it is safe to publish this id again. */
  readonly id?: string | undefined;
  /** After `rate_limited`: when to try again. */
  readonly retryAfterMs?: number | undefined;
  /** After `not_durable`: where the event is. */
  readonly receipt?: Receipt;
  readonly cause?: unknown;
}

/** An error of the hub or of the connection. `String(error)` is `Error: code: message`; programs go by `code`. */
export class HubError extends Error {
  declare readonly code: ErrorCode;
  declare readonly id?: string;
  declare readonly retryAfterMs?: number;
  declare readonly receipt?: Receipt;

  constructor(code: ErrorCode, message: string, { cause, ...details }: ErrorDetails = {}) {
    super(`${code}: ${message}`, cause === undefined ? cause : { cause });
    Object.assign(this, { code }, details);
  }
}
