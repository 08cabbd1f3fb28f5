// Why a request is refused: the code that programs go by, and the text that people read.

/** The codes of the protocol, as `docs/protocol.md` lists them. */
export type RefusalCode =
  | "bad_json"
  | "bad_request"
  | "unknown_op"
  | "unauthorized"
  | "no_token"
  | "jwt_invalid"
  | "token_expired"
  | "token_revoked"
  | "forbidden"
  | "already_subscribed"
  | "not_subscribed"
  | "group_conflict"
  | "unknown_id"
  | "rate_limited"
  | "quota_exceeded"
  | "schema_violation"
  | "too_large"
  | "id_conflict"
  | "unavailable"
  | "internal";

/** Thrown by everything that can refuse a request. */
export class Refusal extends Error {
  readonly code: RefusalCode;
  /** The event that it is about. */
  readonly id: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(code: RefusalCode, message: string, more: { id?: string; retryAfterMs?: number } = {}) {
    super(message);
    this.code = code;
    this.id = more.id;
    this.retryAfterMs = more.retryAfterMs;
  }

  withId(id: string): Refusal {
    const { retryAfterMs } = this;
    return new Refusal(this.code, this.message, { id, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
  }
}

export function badRequest(message: string): Refusal {
  return new Refusal("bad_request", message);
}

/** What was thrown, if it is a refusal; anything else is a bug and thrown on. */
export function refusalOf(thrown: unknown): Refusal {
  if (thrown instanceof Refusal) return thrown;
  throw thrown;
}

/** How many characters of a value an error shows. */
const SHOWN_CHARACTERS = 48;

/** A value for an error: quoted, and cut if it is long. */
export function shown(value: string): string {
  return JSON.stringify(value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);
}

const encoder = new TextEncoder();

/** Bytes of a text in UTF-8, which is what all limits count. */
export function bytesOf(text: string): number {
  return encoder.encode(text).length;
}
