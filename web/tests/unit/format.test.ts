import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { bytes, commandAt, count, curl, cutAt, duration, localInput, milliseconds, oneLine, plural, rate, shellWord, short, shortened, size, time, visible } from "../../src/lib/format.ts";

test("numbers are grouped, rounded and shortened", () => {
  assert.equal(count(1_234_567), "1,234,567");
  assert.equal(count(undefined), "–");
  assert.equal(rate(0.04), "0");
  assert.equal(rate(9.96), "10");
  assert.equal(rate(12_345), "12.3k");
  assert.equal(short(9_999), "9,999");
  assert.equal(short(2_500_000), "2.5M");
  assert.equal(plural(1, "entry", "entries"), "1 entry");
  assert.equal(plural(0, "entry", "entries"), "0 entries");
});

test("sizes have binary units", () => {
  assert.equal(bytes(1_023), "1,023 B");
  assert.equal(bytes(1_024), "1 KiB");
  assert.equal(bytes(1_572_864), "1.5 MiB");
  assert.equal(bytes(null), "–");
});

test("durations have two units at most", () => {
  const expected: readonly (readonly [number, string])[] = [[-5, "0 ms"], [999, "999 ms"], [1_500, "1.5 s"], [59_999, "59 s"], [93_000, "1 min 33 s"], [7_260_000, "2 h 1 min"], [90_000_000, "1 d 1 h"]];
  for (const [millis, text] of expected) assert.equal(duration(millis), text);
  assert.equal(milliseconds(0.25), "0.3 ms");
});

test("control, direction and invisible characters are shown by their codes", () => {
  assert.equal(visible("a\u202eb\u200bc\u0000"), "a\\u202eb\\u200bc\\u0000");
  assert.equal(visible("\u{e0041}"), "\\u{e0041}");
  assert.equal(visible("\ud800"), "\\ud800");
  assert.equal(visible("\u3164\u2028\ufeff"), "\\u3164\\u2028\\ufeff");
  assert.equal(visible("line\nand\ttab, äöü, 日本, 😀"), "line\nand\ttab, äöü, 日本, 😀");
  assert.equal(oneLine("a\n\tb\r"), "a\\n\\tb\\u000d");
});

test("a word of a command is one word for a shell, whatever is in it", () => {
  assert.equal(shellWord("orders.created"), "orders.created");
  assert.equal(shellWord(""), "''");
  assert.equal(shellWord("it's $(rm) \"x\""), `'it'\\''s $(rm) "x"'`);
});

test("a command has no character that a terminal would act on, and gives the program the same bytes", () => {
  const texts = ["a\u0003b", "first\nsecond\t'quoted' \\ back", "\u202eevil\u202c", "\u001b]0;title\u0007", "\u00037", "ü\u200b日本"];
  for (const text of texts) {
    const word = shellWord(text);
    assert.equal(visible(word), word, "what is shown is what is copied");
    assert.ok(!/[\n\t]/.test(word), word);
    assert.deepEqual(execFileSync("bash", ["-c", `printf %s ${word}`]), Buffer.from(text), word);
  }
});

const HERE = "http://127.0.0.1:8082";

test("a command names the hub of the page, unless that is where the program looks by itself", () => {
  assert.equal(commandAt(HERE, "groups seek", ["a", "b c"], { "--to": "latest" }), "event-hub groups seek a 'b c' --to latest");
  assert.equal(commandAt("https://hub.example:8443", "dlq rm", ["orders"], { "--all": true }), "event-hub dlq rm orders --all --ops-url https://hub.example:8443");
  assert.equal(commandAt("https://hub.example", "publish", ["orders", "1"]), 'event-hub publish orders 1 --url "${EVENT_HUB_URL:?}"');
  assert.equal(commandAt("https://hub.example", "token", [], { "--scope": "subscribe:a" }), "event-hub token --scope subscribe:a");
});

test("values and words that begin with a hyphen are not taken for options", () => {
  assert.equal(commandAt(HERE, "dlq replay", ["orders"], { "--key": "-k", "--err": "-x y", "--id": ["a", "-b"], "--group": undefined, "--rate": "" }), "event-hub dlq replay orders --key=-k '--err=-x y' --id a --id=-b");
  assert.equal(commandAt("http://hub:1", "event show", ["-id"], { "--topic": "t" }), "event-hub event show --topic t --ops-url http://hub:1 -- -id");
  assert.equal(commandAt(HERE, "publish", ["t", "-1"]), "event-hub publish -- t -1");
  assert.equal(commandAt(HERE, "publish", ["t", "-"], { "--key": "k" }), "event-hub publish t - --key k");
});

test("commands of push endpoints, jobs and outboxes name the hub of the page", () => {
  for (const [name, words] of [["push resume", ["crm"]], ["jobs cancel", ["018f4e3a-1b2c-7d3e-8f40-112233445566"]], ["outbox retry", []]] as const) {
    assert.equal(commandAt("https://hub.example", name, words), `${["event-hub", name, ...words].join(" ")} --ops-url https://hub.example`);
  }
});

test("a request has its body and its address as one word each", () => {
  assert.equal(curl("POST", "http://127.0.0.1:8082/push/crm/resume"), 'curl -X POST -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8082/push/crm/resume');
  assert.equal(curl("POST", "http://h/outbox/retry", '{"outbox":"it\'s"}'), `curl -X POST -H "Authorization: Bearer $TOKEN" -d '{"outbox":"it'\\''s"}' http://h/outbox/retry`);
});

test("a text is cut at a number of bytes, and no character in two", () => {
  assert.equal(size("aü😀"), 7);
  assert.equal(cutAt("aü😀b", 100), "aü😀b");
  assert.equal(cutAt("aü😀b", 7), "aü😀");
  for (const most of [3, 4, 5, 6]) assert.equal(cutAt("aü😀b", most), "aü");
  assert.equal(cutAt("aü😀b", 2), "a");
});

test("what is no time is shown as the number that it is", () => {
  assert.equal(time(1_780_000_000_000_000_000), "1,780,000,000,000,000,000 ms, which is no time");
  assert.equal(localInput(Number.NaN), "");
  assert.equal(time(undefined), "–");
});

test("a text is shortened between two characters", () => {
  assert.equal(shortened("abc", 3), "abc");
  assert.equal(shortened("abcd", 3), "abc…");
  assert.equal(shortened("ab😀d", 3), "ab…");
  assert.equal(shortened("ab😀d", 4), "ab😀…");
});
