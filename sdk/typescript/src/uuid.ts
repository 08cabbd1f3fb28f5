/** Random hexadecimal digits, made many at a time: asking for a few costs as much. */
let digits = "";
const POOL_BYTES = 512;

/** Random hexadecimal digits. */
export function randomDigits(count: number): string {
  if (digits.length < count) digits = hex(crypto.getRandomValues(new Uint8Array(POOL_BYTES)));
  const taken = digits.slice(0, count);
  digits = digits.slice(count);
  return taken;
}

/** A UUID of version 7: its time makes the ids of one client rise, which the hub's index likes. */
export function uuid7(time: number): string {
  const random = randomDigits(19);
  return format(Math.floor(time).toString(16).padStart(12, "0") + "7" + random.slice(0, 3) + variant(random, 3) + random.slice(4));
}

/** A UUID of version 4: nobody can guess it. */
export function uuid4(): string {
  const random = randomDigits(31);
  return format(random.slice(0, 12) + "4" + random.slice(12, 15) + variant(random, 15) + random.slice(16));
}

/** The digit with the two bits that say which kind of UUID it is. */
export function variant(source: string, at: number): string {
  return ((parseInt(source.charAt(at), 16) & 3) | 8).toString(16);
}

export function format(text: string): string {
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`;
}

function hex(bytes: Iterable<number>): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
