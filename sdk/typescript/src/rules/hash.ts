// SHA-1 and SHA-256. The Web's own digests answer later, and the in-memory hub does everything at once; it signs and derives a few hundred bytes.

const SHA256_CONSTANTS = Array.from({ length: 64 }, (_, at) => fractionOfRoot(primeAt(at), 1 / 3));

function primeAt(index: number): number {
  let found = 0;
  for (let candidate = 2; ; candidate += 1) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= candidate; divisor += 1) isPrime &&= candidate % divisor !== 0;
    if (isPrime && found++ === index) return candidate;
  }
}

/** The first 32 bits of the fraction of a root: where SHA-256 has its constants from. */
function fractionOfRoot(prime: number, power: number): number {
  const root = prime ** power;
  return Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
}

/** The message in words of 32 bits, padded to whole blocks. */
function wordsOf(bytes: Uint8Array): Int32Array {
  const words = new Int32Array((((bytes.length + 8) >> 6) + 1) * 16);
  bytes.forEach((byte, at) => {
    words[at >> 2] = (words[at >> 2] ?? 0) | (byte << (24 - 8 * (at & 3)));
  });
  const end = bytes.length >> 2;
  words[end] = (words[end] ?? 0) | (0x80 << (24 - 8 * (bytes.length & 3)));
  words[words.length - 2] = Math.floor(bytes.length / 2 ** 29);
  words[words.length - 1] = bytes.length << 3;
  return words;
}

function bytesOfWords(words: number[]): Uint8Array {
  return Uint8Array.from(words.flatMap((word) => [word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255]));
}

const left = (word: number, by: number): number => (word << by) | (word >>> (32 - by));
const right = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

export function sha256(bytes: Uint8Array): Uint8Array {
  const words = wordsOf(bytes);
  const state = Array.from({ length: 8 }, (_, at) => fractionOfRoot(primeAt(at), 1 / 2));
  const schedule = new Int32Array(64);
  for (let block = 0; block < words.length; block += 16) {
    for (let at = 0; at < 64; at += 1) {
      if (at < 16) {
        schedule[at] = words[block + at] ?? 0;
        continue;
      }
      const [early, late] = [schedule[at - 15] ?? 0, schedule[at - 2] ?? 0];
      const first = right(early, 7) ^ right(early, 18) ^ (early >>> 3);
      const second = right(late, 17) ^ right(late, 19) ^ (late >>> 10);
      schedule[at] = ((schedule[at - 16] ?? 0) + first + (schedule[at - 7] ?? 0) + second) | 0;
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let at = 0; at < 64; at += 1) {
      const mix = right(e, 6) ^ right(e, 11) ^ right(e, 25);
      const choice = (e & f) ^ (~e & g);
      const one = (h + mix + choice + (SHA256_CONSTANTS[at] ?? 0) + (schedule[at] ?? 0)) | 0;
      const two = ((right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, at) => {
      state[at] = ((state[at] ?? 0) + word) | 0;
    });
  }
  return bytesOfWords(state);
}

export function sha1(bytes: Uint8Array): Uint8Array {
  const words = wordsOf(bytes);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  const schedule = new Int32Array(80);
  for (let block = 0; block < words.length; block += 16) {
    for (let at = 0; at < 80; at += 1) {
      const mixed =
        (schedule[at - 3] ?? 0) ^ (schedule[at - 8] ?? 0) ^ (schedule[at - 14] ?? 0) ^ (schedule[at - 16] ?? 0);
      schedule[at] = at < 16 ? (words[block + at] ?? 0) : left(mixed, 1);
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0] = state;
    for (let at = 0; at < 80; at += 1) {
      const [mix, constant] =
        at < 20
          ? [(b & c) | (~b & d), 0x5a827999]
          : at < 40
            ? [b ^ c ^ d, 0x6ed9eba1]
            : at < 60
              ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
              : [b ^ c ^ d, 0xca62c1d6];
      const next = (left(a, 5) + mix + e + constant + (schedule[at] ?? 0)) | 0;
      [e, d, c, b, a] = [d, c, left(b, 30), a, next];
    }
    [a, b, c, d, e].forEach((word, at) => {
      state[at] = ((state[at] ?? 0) + word) | 0;
    });
  }
  return bytesOfWords(state);
}

const BLOCK_BYTES = 64;

export function hmacSha256(secret: Uint8Array, message: Uint8Array): Uint8Array {
  const key = new Uint8Array(BLOCK_BYTES);
  key.set(secret.length > BLOCK_BYTES ? sha256(secret) : secret);
  const inner = sha256(joined([key.map((byte) => byte ^ 0x36), message]));
  return sha256(joined([key.map((byte) => byte ^ 0x5c), inner]));
}

export function joined(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
