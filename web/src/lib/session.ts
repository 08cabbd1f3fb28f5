// The token and its rights. The token is in the storage of this tab alone, and comes by the fragment of the link that `event-hub serve` prints, or by hand.
import { batch, computed, signal } from "@preact/signals";
import { type Action, type Rule, refusal } from "./rights.ts";

export type WhoAmI = Readonly<{
  sub?: string;
  expires?: number;
  rules: readonly Rule[];
  admin: boolean;
  administrates: boolean;
  hub: Readonly<{ version: string; started: number; store: string }>;
  limits: Readonly<{ payloadBytes: number; batchEvents: number }>;
}>;

/** Whether the dialog with the token's rights is open. */
export const rightsShown = signal(false);

const KEY = "event-hub-token";

export const token = signal<string | undefined>(undefined);
export const who = signal<WhoAmI | undefined>(undefined);
/** Counts changes of the subject or of the rights: nothing that was shown before may stay. */
export const viewerChanges = signal(0);
/** Why a token is asked for; undefined while none is. */
export const asked = signal<string | undefined>(undefined);

/** The token in a text: a link of `event-hub serve`, a header, or the token itself. */
export function tokenIn(text: string): string {
  const linked = /[#?&]token=([^&\s]+)/.exec(text)?.[1];
  return linked === undefined ? text.trim().replace(/^(?:Authorization:\s*)?Bearer\s+/i, "") : decoded(linked);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Takes the token of a link; the caller takes it out of the address. */
export function fromFragment(fragment: string): boolean {
  if (!/[#?&]token=/.test(fragment)) return false;
  use(tokenIn(fragment));
  return true;
}

export function start(): void {
  token.value ??= sessionStorage.getItem(KEY) ?? undefined;
  if (token.value === undefined) asked.value = "Paste a token to look at this hub.";
}

/** Takes a token, with its subject and rights if they are known. */
export function use(given: string, me?: WhoAmI): void {
  sessionStorage.setItem(KEY, given);
  batch(() => {
    const held = token.peek();
    if (held !== undefined && held !== given && (me === undefined || who.peek() === undefined)) {
      // Nobody knows whether that is the same viewer.
      who.value = undefined;
      viewerChanges.value += 1;
    }
    if (me !== undefined) become(me);
    token.value = given;
    asked.value = undefined;
  });
}

/** Takes the subject and the rights of the token. */
export function become(me: WhoAmI): void {
  const before = who.peek();
  batch(() => {
    if (before !== undefined && (before.sub !== me.sub || JSON.stringify(before.rules) !== JSON.stringify(me.rules))) viewerChanges.value += 1;
    who.value = me;
  });
}

/** Logs out. The page begins anew, so that nothing of what was read is left in it, nor in its address. */
export function forget(): void {
  sessionStorage.removeItem(KEY);
  history.replaceState(null, "", location.pathname);
  location.reload();
}

export const rules = computed(() => who.value?.rules ?? []);

/** Why the token may not do that; undefined if it may, or if that is not known yet. */
export function refused(action: Action, topic: string): string | undefined {
  return who.value === undefined ? undefined : refusal(who.value.rules, action, topic);
}

/** The same for actions on the hub as a whole. */
export function refusedForAll(): string | undefined {
  return refused("admin", "**");
}
