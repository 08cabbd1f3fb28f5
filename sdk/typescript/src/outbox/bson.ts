// Payloads as BSON, so that people can query them in MongoDB. What BSON cannot carry exactly stays JSON text.

import { depthOf, elementsOf, membersOf } from "../rules/raw-json.ts";

/** Documents of MongoDB nest 100 deep; the row itself takes some of that. */
const MAX_DEPTH = 90;
const INT32 = 2 ** 31;
const SMALLEST_INT64 = -(2n ** 63n);
const GREATEST_INT64 = 2n ** 63n - 1n;
/** Lone surrogates, which `JSON.stringify` escapes and UTF-8 does not have. */
const LONE_SURROGATE = /\\ud[89a-f]/i;

/** The value that the driver writes as this JSON, in a box; undefined if there is none. */
export function bsonOf(json: string): { value: unknown } | undefined {
  if (depthOf(json) > MAX_DEPTH || LONE_SURROGATE.test(json)) return undefined;
  const value = read(json);
  return value === NOT_EXACT ? undefined : { value };
}

const NOT_EXACT = Symbol("not exact");

function read(json: string): unknown {
  switch (json[0]) {
    case "{": {
      const document: Record<string, unknown> = {};
      for (const [name, text] of membersOf(json)) {
        const value = read(text);
        // A NUL ends a name in BSON, and the driver takes an object with a `_bsontype` for one of its own.
        if (value === NOT_EXACT || name.includes("\0") || name === "_bsontype" || name === "__proto__") return NOT_EXACT;
        document[name] = value;
      }
      return document;
    }
    case "[": {
      const values = elementsOf(json).map(read);
      return values.includes(NOT_EXACT) ? NOT_EXACT : values;
    }
    case '"':
    case "t":
    case "f":
    case "n":
      return JSON.parse(json);
    default:
      return numberOf(json);
  }
}

/** Integers of 64 bits are such in BSON: the driver would write them as doubles. */
function numberOf(json: string): unknown {
  if (!/^-?\d+$/.test(json)) return Number(json);
  const number = Number(json);
  if (Math.abs(number) < INT32) return number;
  const integer = BigInt(json);
  if (integer >= SMALLEST_INT64 && integer <= GREATEST_INT64) return integer;
  return BigInt(number) === integer ? number : NOT_EXACT;
}
