// One text for all the ways to write a JSON value: two values are the same if their canonical texts are. Nothing is lost to a float: `1`, `1.0`
// and `10e-1` are one number, `9007199254740993` is not `9007199254740992`.

import { elementsOf, membersOf } from "../../rules/raw-json.ts";

/** The canonical text of a valid JSON value. */
export function canonical(json: string): string {
  const text = json.trim();
  switch (text[0]) {
    case "{": {
      const members = membersOf(text).map(([name, value]) => [JSON.stringify(name), canonical(value)] as const);
      // Stable: of members with the same name the order has a meaning, for most readers take the last.
      members.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      return `{${members.map(([name, value]) => `${name}:${value}`).join(",")}}`;
    }
    case "[":
      return `[${elementsOf(text).map(canonical).join(",")}]`;
    case '"':
      return JSON.stringify(JSON.parse(text));
    case "t":
    case "f":
    case "n":
      return text;
    default:
      return canonicalNumber(text);
  }
}

/** Its digits without leading and trailing zeros, and a power of ten unless that is zero. */
function canonicalNumber(text: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  const power = BigInt(exponent) + BigInt(digits.length - significant.length - fraction.length);
  return `${sign}${significant}${power === 0n ? "" : `e${power}`}`;
}
