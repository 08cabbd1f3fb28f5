// Event ids: any UUID. The hub makes v7 ones, whose order is that of time, and derives v5 ones for its dead letters.

import { joined, sha1 } from "./hash.ts";

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Reads a UUID, hyphenated or as 32 hex digits, in either case; undefined if it is none. */
export function parseId(text: string): string | undefined {
  if (!UUID.test(text) || (text.length !== 32 && text.length !== 36)) return undefined;
  return hyphenated(text.replaceAll("-", "").toLowerCase());
}

function hyphenated(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Makes ids that ascend, also within one millisecond. */
export class IdGenerator {
  private lastMs = 0;
  private counter = 0;

  next(now: number): string {
    if (now > this.lastMs) [this.lastMs, this.counter] = [now, 0];
    else this.counter += 1;
    // The counter has the 12 bits behind the version and the 14 behind the variant.
    const bytes = crypto.getRandomValues(new Uint8Array(6));
    const ms = this.lastMs.toString(16).padStart(12, "0");
    const high = (0x7000 | (this.counter >> 14)).toString(16);
    const low = (0x8000 | (this.counter & 0x3fff)).toString(16);
    return hyphenated(ms + high + low + hexOf(bytes));
  }
}

/** The namespace of derived ids, the same on every hub. */
const NAMESPACE = Uint8Array.from([
  0x7b, 0x1e, 0x6d, 0x0c, 0x52, 0xf4, 0x4c, 0x8e, 0x9a, 0x37, 0xe4, 0xd8, 0x1f, 0x60, 0xb5, 0x2a,
]);

/** An id that is a function of `parts` alone, each with its length before it so that no two lists share an id. */
export function derivedId(parts: (string | number)[]): string {
  const encoder = new TextEncoder();
  const name = parts.flatMap((part) => {
    const bytes = typeof part === "number" ? bigEndian(part) : encoder.encode(part);
    return [bigEndian(bytes.length), bytes];
  });
  const hash = sha1(joined([NAMESPACE, ...name])).slice(0, 16);
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  return hyphenated(hexOf(hash));
}

function bigEndian(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
  return bytes;
}
