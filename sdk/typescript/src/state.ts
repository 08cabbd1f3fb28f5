import type { HubError } from "./errors.ts";

/** Where a client stands. `until` is in milliseconds since 1970; `tries` counts failures in a row. */
export type HubState =
  | { readonly is: "idle" }
  | { readonly is: "token" | "opening" | "authenticating"; readonly tries: number; readonly until: number }
  | { readonly is: "ready"; readonly sub?: string | undefined; readonly exp?: number | undefined; readonly expired: boolean }
  | { readonly is: "waiting"; readonly tries: number; readonly until: number; readonly error: HubError }
  | { readonly is: "closing"; readonly until: number }
  | { readonly is: "closed"; readonly error?: HubError | undefined };

/** What somebody learns from a state: others are no news. */
export function newsOf(state: HubState): string {
  const { is, sub, exp, expired, until }: { [Field in "is" | "sub" | "exp" | "expired" | "until"]?: unknown } = state;
  return [is, sub, exp, expired, is === "waiting" && until].join();
}
