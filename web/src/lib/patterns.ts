// Topic patterns as the hub reads them: `*` is one segment, `**` any number of them, none included.

/** A run of wildcards with a `**` among them is one `atLeast`: `*.**` and `**.*` mean the same. */
type Token = Readonly<{ literal: string } | { one: true } | { atLeast: number }>;

function tokens(pattern: string): Token[] {
  const found: Token[] = [];
  let [ones, many] = [0, false];
  const flush = () => {
    if (many) found.push({ atLeast: ones });
    else for (let i = 0; i < ones; i += 1) found.push({ one: true });
    [ones, many] = [0, false];
  };
  for (const segment of pattern.split(".")) {
    if (segment === "*") ones += 1;
    else if (segment === "**") many = true;
    else {
      flush();
      found.push({ literal: segment });
    }
  }
  // A topic has a segment, so wildcards alone ask for one at least.
  if (found.length === 0 && many) ones = Math.max(1, ones);
  flush();
  return found;
}

type Step = string | "*" | "**";

/** The tokens one segment at a time. */
function steps(pattern: string): Step[] {
  return tokens(pattern).flatMap((token) => {
    if ("literal" in token) return [token.literal];
    if ("one" in token) return ["*"];
    return [...Array<Step>(token.atLeast).fill("*"), "**"];
  });
}

export function isPattern(text: string): boolean {
  return text.includes("*");
}

/** Whether a pattern matches a topic. */
export function matches(pattern: string, topic: string): boolean {
  return intersects(pattern, topic);
}

/** Whether there could be a topic that both match. */
export function intersects(left: string, right: string): boolean {
  const [ours, theirs] = [steps(left), steps(right)];
  // `row[j]`: some list of segments leads to this step of ours and to step `j` of theirs.
  let row = Array<boolean>(theirs.length + 1).fill(false);
  row[0] = true;
  for (let i = 0; i <= ours.length; i += 1) {
    const next = Array<boolean>(theirs.length + 1).fill(false);
    for (let j = 0; j <= theirs.length; j += 1) {
      if (row[j] !== true) continue;
      const [our, their] = [ours[i], theirs[j]];
      if (our === "**") {
        next[j] = true;
        if (their !== undefined) row[j + 1] = true;
      }
      if (their === "**") {
        row[j + 1] = true;
        if (our !== undefined) next[j] = true;
      }
      if (our === undefined || their === undefined || our === "**" || their === "**") continue;
      if (our === "*" || their === "*" || our === their) next[j + 1] = true;
    }
    if (i < ours.length) row = next;
  }
  return row[theirs.length] === true;
}

/** Whether every topic that `inner` matches is matched by `outer`. Greedy is enough, see `pattern/relation.rs` of the hub. */
export function contains(outer: string, inner: string): boolean {
  // The segments that every topic of `inner` has, and whether a `**` stands before each.
  const seats: { literal: string | undefined; manyBefore: boolean }[] = [];
  let many = false;
  for (const step of steps(inner)) {
    if (step === "**") many = true;
    else {
      seats.push({ literal: step === "*" ? undefined : step, manyBefore: many });
      many = false;
    }
  }
  const wanted = tokens(outer);
  let [at, seat, free] = [0, 0, false];
  let again: { after: number; from: number } | undefined;
  for (;;) {
    const token = wanted[at];
    let fits = false;
    if (token === undefined) {
      if (seat === seats.length && !many) return true;
    } else if ("atLeast" in token) {
      seat += token.atLeast;
      if (seat > seats.length) return false;
      at += 1;
      if (at === wanted.length) return true;
      again = { after: at, from: seat };
      free = true;
      continue;
    } else {
      const taken = seats[seat];
      fits = taken !== undefined && (free || !taken.manyBefore) && ("one" in token || taken.literal === token.literal);
    }
    if (fits) {
      [at, seat, free] = [at + 1, seat + 1, false];
      continue;
    }
    if (again === undefined) return false;
    again.from += 1;
    if (again.from > seats.length) return false;
    [at, seat, free] = [again.after, again.from, true];
  }
}

/** What a topic or a pattern is derived from, step by step: `T.snapshot` and `T` for `dlq.T.snapshot`. */
export function sources(name: string): string[] {
  const found: string[] = [];
  let rest = name;
  for (;;) {
    if (rest.startsWith("dlq.")) rest = rest.slice(4);
    else if (rest.endsWith(".snapshot")) rest = rest.slice(0, -9);
    else return found;
    found.push(rest);
  }
}
