// Topic patterns: `*` is one segment, `**` any number of them, none included, anywhere.

import { PATTERN_BYTES } from "../../rules/limits.ts";
import { derivation, sourcesOf } from "../../rules/names.ts";
import { badRequest, bytesOf, shown } from "../../rules/refusal.ts";

type Step = { is: "literal"; text: string } | { is: "one" } | { is: "many" };

const LITERAL = /^[A-Za-z0-9_-]+$/;

export class Pattern {
  readonly text: string;
  /** One after the other; of wildcards in a row the `**` is last, and stands alone. */
  private readonly steps: readonly Step[];

  private constructor(text: string, steps: readonly Step[]) {
    this.text = text;
    this.steps = steps;
  }

  static parse(text: string): Pattern {
    const bytes = bytesOf(text);
    if (bytes > PATTERN_BYTES) {
      throw badRequest(`pattern ${shown(text)} has ${bytes} bytes; at most ${PATTERN_BYTES} are allowed`);
    }
    const steps: Step[] = [];
    let run = { ones: 0, many: false };
    const flush = (): void => {
      for (let count = 0; count < run.ones; count += 1) steps.push({ is: "one" });
      if (run.many) steps.push({ is: "many" });
      run = { ones: 0, many: false };
    };
    for (const segment of text.split(".")) {
      if (segment === "*") run.ones += 1;
      else if (segment === "**") run.many = true;
      else if (LITERAL.test(segment)) {
        flush();
        steps.push({ is: "literal", text: segment });
      } else {
        throw badRequest(`pattern ${shown(text)}: segment ${shown(segment)} is neither *, ** nor [A-Za-z0-9_-]+`);
      }
    }
    // A topic has at least one segment.
    if (steps.length === 0 && run.many) run.ones = Math.max(run.ones, 1);
    flush();
    return new Pattern(text, steps);
  }

  /** Whether a topic is one of the pattern's. */
  matches(topic: string): boolean {
    return this.intersectsSteps(topic.split(".").map((text) => ({ is: "literal", text })));
  }

  /** Whether a subscription to the pattern covers a topic: derived topics only if the pattern names them. */
  covers(topic: string): boolean {
    const derived = derivation(topic);
    if (!derived) return topic.split(".")[0] !== "_hub" && this.matches(topic);
    const namesLetters = this.text.split(".")[0] === "dlq";
    const namesSnapshot = this.text.split(".").at(-1) === "snapshot";
    const isOfSnapshot = derived.source.endsWith(".snapshot");
    const named = derived.how === "dead-letter" ? namesLetters && (!isOfSnapshot || namesSnapshot) : namesSnapshot;
    return named && this.matches(topic);
  }

  /** Whether there could be a topic that both match. */
  intersects(other: Pattern): boolean {
    return this.intersectsSteps(other.steps);
  }

  /**
   * Whether this pattern matches everything that `other` matches. Each step of this pattern takes the segments of a topic of `other` from left
   * to right; a wildcard of `other` stands for a segment that nobody names, so only a wildcard can take it. Taking each fixed stretch as far
   * left as possible leaves the most room to its right, so it finds a way if there is one: hub-proto's `relation.rs` has the proof.
   */
  contains(other: Pattern): boolean {
    const tokens = tokensOf(this.steps);
    const seats = seatsOf(other.steps);
    let at = 0;
    let seat = 0;
    // Whether the next token may sit behind a `**` of `other`: only right after an "at least".
    let free = false;
    let lastMany: { at: number; seat: number } | undefined;
    for (;;) {
      const token = tokens[at];
      if (token?.is === "at least") {
        seat += token.count;
        if (seat > seats.list.length) return false;
        at += 1;
        if (at === tokens.length) return true;
        lastMany = { at, seat };
        free = true;
        continue;
      }
      const found = seats.list[seat];
      const taken = found && (free || !found.manyBefore) ? found : undefined;
      let fits = false;
      if (token === undefined) {
        if (seat === seats.list.length && !seats.manyAtEnd) return true;
      } else if (taken) {
        fits = token.is === "one" || taken.literal === token.text;
      }
      if (fits) {
        at += 1;
        seat += 1;
        free = false;
        continue;
      }
      if (!lastMany) return false;
      lastMany.seat += 1;
      if (lastMany.seat > seats.list.length) return false;
      at = lastMany.at;
      seat = lastMany.seat;
      free = true;
    }
  }

  /** What the pattern's topics are derived from, as patterns. */
  sources(): Pattern[] {
    return sourcesOf(this.text).flatMap((source) => {
      try {
        return [Pattern.parse(source)];
      } catch {
        return [];
      }
    });
  }

  private intersectsSteps(theirs: readonly Step[]): boolean {
    const ours = this.steps;
    // `row[j]`: some list of segments takes us to the step of the row and them to step `j`.
    let row = new Array<boolean>(theirs.length + 1).fill(false);
    row[0] = true;
    for (let i = 0; ; i += 1) {
      const next = new Array<boolean>(theirs.length + 1).fill(false);
      for (let j = 0; j <= theirs.length; j += 1) {
        if (!row[j]) continue;
        const [our, their] = [ours[i], theirs[j]];
        if (our?.is === "many") next[j] = true;
        if (their?.is === "many") row[j + 1] = true;
        if (!our || !their) continue;
        if (our.is === "many") {
          if (their.is !== "many") row[j + 1] = true;
        } else if (their.is === "many") next[j] = true;
        else if (our.is !== "literal" || their.is !== "literal" || our.text === their.text) next[j + 1] = true;
      }
      if (i === ours.length) return row[theirs.length] === true;
      row = next;
    }
  }
}

type Token = { is: "literal"; text: string } | { is: "one" } | { is: "at least"; count: number };

/** The steps, with each run of wildcards that has a `**` as one token. */
function tokensOf(steps: readonly Step[]): Token[] {
  const tokens: Token[] = [];
  for (const step of steps) {
    if (step.is !== "many") {
      tokens.push(step);
      continue;
    }
    let count = 0;
    while (tokens.at(-1)?.is === "one") {
      tokens.pop();
      count += 1;
    }
    tokens.push({ is: "at least", count });
  }
  return tokens;
}

/** The segments that every topic of a pattern has, in order. */
interface Seats {
  list: { literal: string | undefined; manyBefore: boolean }[];
  manyAtEnd: boolean;
}

function seatsOf(steps: readonly Step[]): Seats {
  const seats: Seats = { list: [], manyAtEnd: false };
  for (const step of steps) {
    if (step.is === "many") {
      seats.manyAtEnd = true;
      continue;
    }
    seats.list.push({ literal: step.is === "literal" ? step.text : undefined, manyBefore: seats.manyAtEnd });
    seats.manyAtEnd = false;
  }
  return seats;
}
