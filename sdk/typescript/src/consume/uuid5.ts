/** A UUID of version 5 (RFC 9562): the same for the same name. */
export function uuid5(namespace: string, name: string): string {
  const space = namespace.replace(/-/g, "").replace(/../g, (pair) => String.fromCharCode(parseInt(pair, 16)));
  const utf8 = Array.from(new TextEncoder().encode(name), (byte) => String.fromCharCode(byte)).join("");
  const hash = sha1(Array.from(space + utf8, (char) => char.charCodeAt(0)));
  // The digit that says which kind of UUID it is keeps two bits of the hash.
  const variant = ((parseInt(hash.charAt(16), 16) & 3) | 8).toString(16);
  const [a, b, c, d, e] = [hash.slice(0, 8), hash.slice(8, 12), hash.slice(13, 16), hash.slice(17, 20), hash.slice(20, 32)];
  return `${a}-${b}-5${c}-${variant}${d}-${e}`;
}

/**
 * SHA-1 (RFC 3174), which version 5 asks for. `crypto.subtle` has it in secure contexts only, and a page of a hub in the own
 * network often is none.
 */
function sha1(bytes: number[]): string {
  const bits = bytes.length * 8;
  bytes.push(0x80);
  while (bytes.length % 64 !== 56) bytes.push(0);
  for (let shift = 56; shift >= 0; shift -= 8) bytes.push(Math.floor(bits / 2 ** shift) & 255);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by));
  for (let block = 0; block < bytes.length; block += 64) {
    const words: number[] = [];
    let [a, b, c, d, e] = state as [number, number, number, number, number];
    for (let round = 0; round < 80; round++) {
      const word = (back: number): number => words[round - back] ?? 0;
      const byte = (offset: number): number => bytes[block + round * 4 + offset] ?? 0;
      words[round] =
        round < 16
          ? (byte(0) << 24) | (byte(1) << 16) | (byte(2) << 8) | byte(3)
          : rotate(word(3) ^ word(8) ^ word(14) ^ word(16), 1);
      const [mixed, constant] =
        round < 20
          ? [(b & c) | (~b & d), 0x5a827999]
          : round < 40
            ? [b ^ c ^ d, 0x6ed9eba1]
            : round < 60
              ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
              : [b ^ c ^ d, 0xca62c1d6];
      const next = (rotate(a, 5) + mixed + e + constant + word(0)) | 0;
      [a, b, c, d, e] = [next, a, rotate(b, 30), c, d];
    }
    [a, b, c, d, e].forEach((value, index) => (state[index] = ((state[index] ?? 0) + value) | 0));
  }
  return state.map((value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
}
