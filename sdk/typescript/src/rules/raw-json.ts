// JSON as text: a payload is kept as the publisher wrote it, so that no number of it is rounded. A frame is checked by `JSON.parse` once; the
// functions here take text that has passed.

/** The members of an object, in order, names as they mean and values as they are written. A name may be there twice. */
export function membersOf(object: string): [name: string, value: string][] {
  return partsOf(object).map((part) => {
    const end = stringEnd(part, 0);
    const name = JSON.parse(part.slice(0, end)) as string;
    return [name, part.slice(part.indexOf(":", end) + 1).trim()];
  });
}

/** The elements of an array, as they are written. */
export function elementsOf(array: string): string[] {
  return partsOf(array);
}

/** How deep arrays and objects are nested. */
export function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at];
    if (character === '"') at = stringEnd(json, at) - 1;
    else if (character === "{" || character === "[") deepest = Math.max(deepest, (depth += 1));
    else if (character === "}" || character === "]") depth -= 1;
  }
  return deepest;
}

/** The text between the commas of the outermost brackets. */
function partsOf(json: string): string[] {
  const parts: string[] = [];
  const text = json.trim();
  let depth = 0;
  let start = 1;
  for (let at = 1; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = stringEnd(text, at) - 1;
    else if (character === "{" || character === "[") depth += 1;
    else if (depth > 0 && (character === "}" || character === "]")) depth -= 1;
    else if (depth === 0 && (character === "," || character === "}" || character === "]")) {
      const part = text.slice(start, at).trim();
      if (part !== "") parts.push(part);
      start = at + 1;
    }
  }
  return parts;
}

/** Where the string ends that begins at `start`: behind its closing quote. */
function stringEnd(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}
