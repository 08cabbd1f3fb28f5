// JSON as text. Payloads are shown, copied and edited as the bytes that were published: parsing a number and writing it again would round
// integers beyond 2^53. The functions here find parts of a JSON text, and never build values of it; `lines` indents one.

export const [QUOTE, BACKSLASH, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY, COMMA, COLON] = [34, 92, 123, 125, 91, 93, 44, 58] as const;

export function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

/** The end of the value that begins at `at`, which is not white space. */
function valueEnd(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return stringEnd(text, at);
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
    let depth = 0;
    for (let i = at; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) i = stringEnd(text, i) - 1;
      else if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth += 1;
      else if ((code === CLOSE_OBJECT || code === CLOSE_ARRAY) && --depth === 0) return i + 1;
    }
    return text.length;
  }
  let end = at;
  while (end < text.length && !",]} \n\r\t".includes(text[end] as string)) end += 1;
  return end;
}

/** The end of the string whose opening quote is at `at`. */
export function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    // An even number of backslashes stands for themselves.
    if ((end - before) % 2 === 1) return end + 1;
  }
  return text.length;
}

export function skipSpace(text: string, at: number): number {
  while (at < text.length && isSpace(text.charCodeAt(at))) at += 1;
  return at;
}

/** The members of a JSON object, each as text; none if the text is no object. Of a text that was cut, those before the cut. */
export function members(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text[at] !== "{") return found;
  at = skipSpace(text, at + 1);
  while (text[at] === '"') {
    const nameEnd = stringEnd(text, at);
    const colon = skipSpace(text, nameEnd);
    if (text[colon] !== ":") return found;
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    at = skipSpace(text, colon + 1);
    const end = valueEnd(text, at);
    found.set(name, text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
}

/** The items of a JSON array, each as text; none if the text is no array. */
export function items(text: string): string[] {
  const found: string[] = [];
  let at = skipSpace(text, 0);
  if (text[at] !== "[") return found;
  at = skipSpace(text, at + 1);
  while (at < text.length && text[at] !== "]") {
    const end = valueEnd(text, at);
    if (end === at) return found;
    found.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
  return found;
}

/** The text without white space between its tokens. */
export function compact(text: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = stringEnd(text, i) - 1;
    else if (isSpace(code)) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  parts.push(text.slice(from));
  return parts.join("");
}

/** What is wrong with a text as JSON; undefined if nothing is. */
export function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A JSON object from members whose values are JSON texts already. */
export function object(parts: Iterable<readonly [name: string, json: string | undefined]>): string {
  const given = [...parts].filter(([, value]) => value !== undefined);
  return `{${given.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}
