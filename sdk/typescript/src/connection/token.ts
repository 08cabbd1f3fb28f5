import type { HubError } from "../errors.ts";

/** What a token function gets. */
export interface TokenRequest {
  /** Aborted when the token is no longer wanted. */
  readonly signal: AbortSignal;
  /** The hub has refused the token before: one from a cache would be refused as well. */
  readonly refused?: HubError;
}

/** A token, or what gets one: before each connection, and before the one in force ends. */
export type TokenSource = string | undefined | ((request: TokenRequest) => string | Promise<string>);

/**
 * How long a token is still good, in milliseconds. A clock that is behind would say too much, so it is at most the time from
 * when the token was issued to its end. By a clock that is ahead, a token that the hub has just accepted has ended: then it is that time.
 */
export function lifetimeOf(token: string | undefined, exp: number | undefined, wall: number): number {
  if (exp === undefined) return Infinity;
  const left = exp * 1000 - wall;
  const issued = issuedAt(token);
  const whole = issued === undefined ? left : (exp - issued) * 1000;
  return left > 0 ? Math.min(left, whole) : whole;
}

/** `iat` of a token whose claims can be read. */
function issuedAt(token: string | undefined): number | undefined {
  try {
    const claims = atob((token ?? "").split(".")[1]?.replace(/-/g, "+").replace(/_/g, "/") ?? "");
    const { iat } = JSON.parse(claims) as { iat?: unknown };
    if (typeof iat === "number") return iat;
  } catch {
    // Not a JWT. That is for the hub to say.
  }
  return undefined;
}
