// Numbers, sizes, times and hostile text as a person reads them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value: number | undefined | null): string {
  return value === undefined || value === null ? "–" : whole.format(value);
}

/** Per second: one digit behind the point below 10. */
export function rate(value: number | undefined): string {
  if (value === undefined) return "–";
  return value < 10 ? small.format(value) : short(value);
}

/** 12,345 as 12.3k. */
export function short(value: number): string {
  if (value < 10_000) return whole.format(value);
  if (value < 1e6) return `${small.format(value / 1e3)}k`;
  if (value < 1e9) return `${small.format(value / 1e6)}M`;
  return `${small.format(value / 1e9)}G`;
}

export function bytes(value: number | undefined | null): string {
  if (value === undefined || value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(value) : small.format(value)} ${units[unit]}`;
}

/** 93,000 ms as 1 min 33 s. */
export function duration(millis: number | undefined | null): string {
  if (millis === undefined || millis === null) return "–";
  if (millis < 0) return "0 ms";
  if (millis < 1_000) return `${Math.round(millis)} ms`;
  const seconds = millis / 1_000;
  if (seconds < 10) return `${small.format(seconds)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

export function milliseconds(value: number | undefined): string {
  if (value === undefined) return "–";
  return value < 10 ? `${small.format(value)} ms` : duration(value);
}

const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");

/** 2026-11-18 14:31:54, in the viewer's time zone. */
export function time(millis: number | undefined | null): string {
  if (millis === undefined || millis === null) return "–";
  const date = new Date(millis);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(millis)}`;
}

export function clock(millis: number): string {
  const date = new Date(millis);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** The value of an `<input type="datetime-local">`. */
export function localInput(millis: number): string {
  return time(millis).replace(" ", "T");
}

// Characters that nobody sees, or that change the direction of what follows them; line breaks and tabs are not among them.
const HIDDEN = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

/** A text in which every control and direction character can be seen. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => {
    const code = (char.codePointAt(0) ?? 0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** The same on one line. */
export function oneLine(text: string): string {
  return visible(text.replace(/[\n\t]/g, (char) => (char === "\n" ? "\\n" : "\\t")));
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A word of a command line, quoted for a POSIX shell if it has to be. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_.,:/=@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function command(...words: string[]): string {
  return ["event-hub", ...words.map(shellWord)].join(" ");
}

/** A request for which the command line has no command. The token is in `TOKEN`. */
export function curl(method: string, address: string): string {
  return `curl -X ${method} -H "Authorization: Bearer $TOKEN" ${shellWord(address)}`;
}

const encoder = new TextEncoder();

/** How many bytes a text has. */
export function size(text: string): number {
  return encoder.encode(text).length;
}

/** The first so many bytes of a text, or a few less: no character is cut. */
export function cutAt(text: string, most: number): string {
  if (text.length * 3 <= most) return text;
  const bytes = encoder.encode(text.slice(0, most));
  return bytes.length <= most ? text.slice(0, most) : new TextDecoder().decode(bytes.subarray(0, most)).replace(/\ufffd+$/, "");
}
