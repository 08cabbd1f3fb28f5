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

/** What a `Date` can be at most, in milliseconds. A row of an outbox has the time that a service wrote, which may have been nanoseconds. */
const MOST_MILLIS = 8.64e15;

export function isTime(millis: number): boolean {
  return Math.abs(millis) <= MOST_MILLIS;
}

/** 2026-11-18 14:31:54, in the viewer's time zone. */
export function time(millis: number | undefined | null): string {
  if (millis === undefined || millis === null) return "–";
  if (!isTime(millis)) return `${whole.format(millis)} ms, which is no time`;
  const date = new Date(millis);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(millis)}`;
}

/** 14:31:54 */
export function clock(millis: number): string {
  const date = new Date(millis);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** The value of an `<input type="datetime-local">`. */
export function localInput(millis: number): string {
  return isTime(millis) ? time(millis).replace(" ", "T") : "";
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

/** A text cut at a number of characters, with a mark if something was cut; no surrogate pair is split. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const isPair = /[\ud800-\udbff]/.test(text[most - 1] ?? "");
  return `${text.slice(0, isPair ? most - 1 : most)}…`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const encoder = new TextEncoder();

/** Characters that a terminal acts on: a command with them would do something else than it shows. */
const UNSAFE = new RegExp(`${HIDDEN.source}|[\n\t]`, "u");

/** A word of a command line, quoted for a shell if it has to be. What cannot be seen is written by the octal numbers of its bytes, which bash, zsh and
 * ksh understand: the text that is shown is the text that is copied. */
export function shellWord(text: string): string {
  if (/^[A-Za-z0-9_.,:/=@-]+$/.test(text)) return text;
  if (!UNSAFE.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const octal = (char: string) => [...encoder.encode(char)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  return `$'${text.replace(/[\\']/g, "\\$&").replace(new RegExp(UNSAFE, "gu"), (char) => (char === "\n" ? "\\n" : char === "\t" ? "\\t" : octal(char)))}'`;
}

/** Options of a command: a value, several, or none (`true`). Those without a value (`undefined`, or empty) are left out. */
export type CliOptions = Readonly<Record<string, string | number | true | readonly string[] | undefined>>;

/** Where the command line looks for a hub if nobody names one. */
const DEFAULT_ORIGIN = "http://127.0.0.1:8082";
/** Commands that talk to the HTTP port, which this page comes from, and to the gateway. All others use no connection. */
const OF_HTTP = ["dlq", "event", "export", "groups", "jobs", "outbox", "push", "replay", "topics"];
const OF_GATEWAY = ["publish", "subscribe"];

/** Which hub a command is to talk to. The page does not know the address of the gateway: that is a variable, and the command fails where it is not set,
 * instead of reaching another hub. */
function hubOption(command: string, origin: string): string[] {
  if (origin === DEFAULT_ORIGIN) return [];
  if (OF_HTTP.includes(command)) return ["--ops-url", shellWord(origin)];
  return OF_GATEWAY.includes(command) ? ["--url", '"${EVENT_HUB_URL:?}"'] : [];
}

/** A command of the program for the hub at an origin. */
export function commandAt(origin: string, name: string, positionals: readonly string[], options: CliOptions = {}): string {
  // A value such as -1 must not be taken for an option.
  const option = (flag: string, value: string | number | true) => {
    if (value === true) return [flag];
    const text = String(value);
    return text.startsWith("-") ? [shellWord(`${flag}=${text}`)] : [flag, shellWord(text)];
  };
  const flags = Object.entries(options).flatMap(([flag, given]) => {
    if (given === undefined || given === "") return [];
    return (Array.isArray(given) ? (given as readonly string[]) : [given as string | number | true]).flatMap((value) => option(flag, value));
  });
  const words = positionals.map(shellWord);
  const isOptionLike = positionals.some((word) => word.startsWith("-") && word !== "-");
  const last = [...flags, ...hubOption(name.split(" ")[0] ?? "", origin)];
  return ["event-hub", name, ...(isOptionLike ? [...last, "--", ...words] : [...words, ...last])].join(" ");
}

/** A command of the program for the hub of this page. */
export function command(name: string, positionals: readonly string[], options: CliOptions = {}): string {
  return commandAt(location.origin, name, positionals, options);
}

/** A request for which the command line has no command. The token is in `TOKEN`. */
export function curl(method: string, address: string, body?: string): string {
  return `curl -X ${method} -H "Authorization: Bearer $TOKEN"${body === undefined ? "" : ` -d ${shellWord(body)}`} ${shellWord(address)}`;
}

/** How many bytes a text has. */
export function size(text: string): number {
  return encoder.encode(text).length;
}

/** A text cut at a number of bytes, or a few less: no character is split. */
export function cutAt(text: string, most: number): string {
  if (text.length * 3 <= most) return text;
  const bytes = encoder.encode(text.slice(0, most));
  return bytes.length <= most ? text.slice(0, most) : new TextDecoder().decode(bytes.subarray(0, most)).replace(/\ufffd+$/, "");
}
