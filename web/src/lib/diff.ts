// What differs between two texts, line by line.

export type DiffLine = Readonly<{ sign: " " | "-" | "+" | "…"; text: string }>;

/** Unchanged lines that are shown before and behind a change. */
const CONTEXT = 2;
/** Most steps for the shortest list of changes; for larger texts everything between the first and the last change counts as changed. */
const MOST_STEPS = 1_000_000;

export function changes(before: readonly string[], after: readonly string[]): DiffLine[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const middle = between(before.slice(start, before.length - end), after.slice(start, after.length - end));
  if (middle.length === 0) return [];
  const line = (text: string): DiffLine => ({ sign: " ", text });
  return shortened([
    ...before.slice(Math.max(0, start - CONTEXT), start).map(line),
    ...middle,
    ...after.slice(after.length - end, after.length - end + CONTEXT).map(line),
  ]);
}

/** A long line is cut around the place where it differs from the one that it stands against, which is else somewhere in a megabyte. */
export function excerpts(lines: readonly DiffLine[], most: number): DiffLine[] {
  return lines.map((line, at) => ({ ...line, text: excerpt(line.text, opposite(lines, at), most) }));
}

/** The line that a removed line has become, or that an added one has been: the one at the same place of its block. */
function opposite(lines: readonly DiffLine[], at: number): string {
  const sign = lines[at]?.sign;
  if (sign !== "-" && sign !== "+") return "";
  let start = at;
  while (lines[start - 1]?.sign === sign) start -= 1;
  if (sign === "-") {
    let end = at;
    while (lines[end + 1]?.sign === "-") end += 1;
    const other = lines[end + 1 + at - start];
    return other?.sign === "+" ? other.text : "";
  }
  let first = start;
  while (lines[first - 1]?.sign === "-") first -= 1;
  const other = lines[first + at - start];
  return other?.sign === "-" ? other.text : "";
}

function excerpt(text: string, other: string, most: number): string {
  if (text.length <= most) return text;
  let same = 0;
  while (same < other.length && same < text.length && text[same] === other[same]) same += 1;
  const from = Math.max(0, Math.min(same - Math.floor(most / 4), text.length - most));
  return `${from > 0 ? "…" : ""}${text.slice(from, from + most)}${from + most < text.length ? "…" : ""}`;
}

/** The shortest list of changes, by the longest common subsequence. */
function between(before: readonly string[], after: readonly string[]): DiffLine[] {
  const gone = (text: string): DiffLine => ({ sign: "-", text });
  const added = (text: string): DiffLine => ({ sign: "+", text });
  if (before.length * after.length > MOST_STEPS) return [...before.map(gone), ...after.map(added)];
  const width = after.length + 1;
  const common = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      const [below, right] = [common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0];
      common[i * width + j] = before[i] === after[j] ? (common[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(below, right);
    }
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < before.length && j < after.length) {
    const [left, right] = [before[i] ?? "", after[j] ?? ""];
    if (left === right) {
      found.push({ sign: " ", text: left });
      [i, j] = [i + 1, j + 1];
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0)) {
      found.push(gone(left));
      i += 1;
    } else {
      found.push(added(right));
      j += 1;
    }
  }
  return [...found, ...before.slice(i).map(gone), ...after.slice(j).map(added)];
}

/** Long stretches without a change become one line. */
function shortened(lines: readonly DiffLine[]): DiffLine[] {
  const near = lines.map(() => false);
  lines.forEach(({ sign }, at) => {
    if (sign !== " ") near.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const found: DiffLine[] = [];
  lines.forEach((line, at) => {
    if (near[at] === true) found.push(line);
    else if (found.at(-1)?.sign !== "…" && found.length > 0) found.push({ sign: "…", text: "" });
  });
  return found;
}
