// A JSON text with one member on each line, indented by two spaces. Where the lines are is found at once; a line is written when it is asked for,
// because of 100,000 lines some 50 are in sight.
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, isSpace, OPEN_ARRAY, OPEN_OBJECT, QUOTE, skipSpace, stringEnd } from "./json.ts";

/** What is no JSON is broken into lines in the same way. */
export class IndentedLines {
  readonly count: number;
  readonly #text: string;
  /** Where each line begins in the text, and how deep it stands; behind the last one, where the text ends. */
  readonly #starts: number[] = [0];
  readonly #depths: number[] = [0];

  constructor(text: string) {
    this.#text = text;
    let depth = 0;
    const breakAt = (at: number) => {
      this.#starts.push(at);
      this.#depths.push(depth);
    };
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) {
        i = stringEnd(text, i) - 1;
      } else if (code === COMMA) {
        breakAt(i + 1);
      } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
        const end = skipSpace(text, i + 1);
        const closes = text.charCodeAt(end);
        if (closes === CLOSE_OBJECT || closes === CLOSE_ARRAY) {
          i = end;
        } else {
          depth += 1;
          breakAt(i + 1);
        }
      } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
        depth = Math.max(0, depth - 1);
        breakAt(i);
      }
    }
    this.count = this.#starts.length;
    this.#starts.push(text.length);
  }

  /** How many characters a line has in the text itself. */
  lengthOf(line: number): number {
    return (this.#starts[line + 1] ?? 0) - (this.#starts[line] ?? 0);
  }

  line(line: number): string {
    return "  ".repeat(this.#depths[line] ?? 0) + spaced(this.#text, this.#starts[line] ?? 0, this.#starts[line + 1] ?? 0);
  }
}

/** A part of the text with a space behind each colon, and none elsewhere between its tokens. */
function spaced(text: string, start: number, end: number): string {
  let line = "";
  let from = start;
  for (let i = start; i < end; i += 1) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = stringEnd(text, i) - 1;
    } else if (code === COLON) {
      line += `${text.slice(from, i + 1)} `;
      from = i + 1;
    } else if (isSpace(code)) {
      line += text.slice(from, i);
      from = i + 1;
    }
  }
  return line + text.slice(from, end);
}

/** All lines of a text. */
export function indentedLines(text: string): string[] {
  const lines = new IndentedLines(text);
  return Array.from({ length: lines.count }, (_, line) => lines.line(line));
}

export function indented(text: string): string {
  return indentedLines(text).join("\n");
}

/** The same lines, of which long ones go on in further rows: a browser takes long to lay out a line of a megabyte. */
export class Rows {
  readonly count: number;
  readonly #lines: IndentedLines;
  readonly #rowChars: number;
  /** Lines that have several rows, with the first row of each of them. */
  readonly #long: { line: number; row: number; text: string }[] = [];

  constructor(text: string, rowChars: number) {
    this.#lines = new IndentedLines(text);
    this.#rowChars = rowChars;
    let extra = 0;
    for (let line = 0; line < this.#lines.count; line += 1) {
      // Indentation and spaces make a line longer than it is in the text, by less than that.
      if (this.#lines.lengthOf(line) * 2 <= rowChars) continue;
      const whole = this.#lines.line(line);
      const rows = Math.ceil(whole.length / rowChars);
      if (rows <= 1) continue;
      this.#long.push({ line, row: line + extra, text: whole });
      extra += rows - 1;
    }
    this.count = this.#lines.count + extra;
  }

  row(row: number): string {
    const before = this.#long.findLast((one) => one.row <= row);
    if (before === undefined) return this.#lines.line(row);
    const piece = row - before.row;
    const pieces = Math.ceil(before.text.length / this.#rowChars);
    if (piece >= pieces) return this.#lines.line(before.line + piece - pieces + 1);
    const at = piece * this.#rowChars;
    return `${piece === 0 ? "" : "↪ "}${before.text.slice(at, at + this.#rowChars)}`;
  }
}
