// Tokens: JWTs with HS256, as a hub with `JWT_SECRET` takes them.

import { Refusal, bytesOf } from "../../rules/refusal.ts";
import { type WrittenRule, policyOf } from "./claims.ts";
import { hmacSha256 } from "../../rules/hash.ts";
import type { Policy } from "./policy.ts";

/** What a token is to say. Without scopes and policy it allows nothing. */
export interface TokenClaims {
  sub?: string;
  /** Such as `publish:orders`, `subscribe:process.**`, `admin`. */
  scopes?: string[];
  policy?: { rules: WrittenRule[] };
  /** How long it is valid; 3600 unless said, negative for one that ran out so long ago. */
  ttlSeconds?: number;
  /** Without `exp`, which a hub refuses. */
  withoutExp?: boolean;
}

/** Whom a token speaks for. */
export interface Identity {
  subject: string | undefined;
  /** In seconds, as the token says. */
  exp: number;
  /** When it stops to count, by the hub's clock. */
  expires: number;
  issued: number | undefined;
  policy: Policy;
}

const MAX_TOKEN_BYTES = 16 * 1024;
const MAX_SUBJECT_BYTES = 256;
/** The end of the year 9999: times beyond it mean as much. */
const FAR_FUTURE = 253_402_300_799_000;

const encoder = new TextEncoder();

export function mintToken(secret: string, { sub, scopes, policy, ttlSeconds = 3600, withoutExp }: TokenClaims, now: number): string {
  // One that ran out was made earlier, for a moment.
  const issued = Math.floor(now / 1000) + Math.min(ttlSeconds, 0);
  const claims = {
    ...(sub === undefined ? {} : { sub }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(policy === undefined ? {} : { policy }),
    iat: issued,
    ...(withoutExp === true ? {} : { exp: issued + Math.max(ttlSeconds, 0) }),
  };
  const signed = [{ alg: "HS256", typ: "JWT" }, claims].map((part) => base64url(encoder.encode(JSON.stringify(part)))).join(".");
  return `${signed}.${signature(secret, signed)}`;
}

/** Whom a token speaks for; refuses one that does not count. */
export function identify(token: string | undefined, secret: string, leewayMs: number, now: number): Identity {
  if (token === undefined || token === "") {
    throw new Refusal("no_token", "no token: send one, see `event-hub token` or MemoryHub.token()");
  }
  const bytes = bytesOf(token);
  if (bytes > MAX_TOKEN_BYTES) throw invalid(`a token of ${bytes} bytes; at most ${MAX_TOKEN_BYTES} are allowed`);
  const claims = verified(token, secret);
  const nbf = timeOf(claims, "nbf");
  if (nbf !== undefined && now + leewayMs < nbf) {
    throw invalid(`the token holds only in ${Math.ceil((nbf - now) / 1000)} s (nbf)`);
  }
  const exp = timeOf(claims, "exp");
  if (exp === undefined) throw invalid("the token has no exp: this hub takes only tokens that run out");
  if (now >= exp + leewayMs) {
    const ago = Math.floor((now - exp) / 1000);
    throw new Refusal("token_expired", `the token ran out ${ago} s ago: send a new one`);
  }
  const subject = subjectOf(claims);
  return {
    subject,
    exp: Math.floor(exp / 1000),
    expires: exp + leewayMs,
    issued: timeOf(claims, "iat"),
    policy: policyOf(claims).forSubject(subject),
  };
}

function verified(token: string, secret: string): Record<string, unknown> {
  const parts = token.split(".");
  const [header, claims, given] = parts;
  if (parts.length !== 3 || header === undefined || claims === undefined || given === undefined) throw notJwt();
  const { alg } = decoded(header);
  if (alg !== "HS256") throw invalid(`the token's alg is ${String(alg)}; this hub takes HS256`);
  if (given !== signature(secret, `${header}.${claims}`)) throw invalid("the token's signature does not hold");
  return decoded(claims);
}

function decoded(part: string): Record<string, unknown> {
  let text: string;
  try {
    const binary = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
    text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (byte) => byte.charCodeAt(0)));
  } catch {
    throw notJwt();
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw invalid("the token's header or claims are no JSON object, or alg is none of RS256, ES256, EdDSA, HS256");
}

/** A claim that is a time in seconds, whole or not; in milliseconds. */
function timeOf(claims: Record<string, unknown>, name: string): number | undefined {
  const value = claims[name];
  if (value === undefined) return undefined;
  if (typeof value !== "number") throw invalid(`the token's ${name} is not a number of seconds`);
  return Math.min(Math.max(Math.round(value * 1000), 0), FAR_FUTURE);
}

function subjectOf({ sub }: Record<string, unknown>): string | undefined {
  if (sub === undefined) return undefined;
  if (typeof sub !== "string") throw invalid("the token's sub is not a string");
  const bytes = bytesOf(sub);
  if (bytes <= MAX_SUBJECT_BYTES) return sub;
  throw invalid(`the token's sub has ${bytes} bytes; at most ${MAX_SUBJECT_BYTES} are allowed`);
}

function signature(secret: string, text: string): string {
  return base64url(hmacSha256(encoder.encode(secret), encoder.encode(text)));
}

function base64url(bytes: Uint8Array): string {
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function notJwt(): Refusal {
  return invalid("not a JWT: it has three parts in base64url with dots between");
}

function invalid(message: string): Refusal {
  return new Refusal("jwt_invalid", message);
}
