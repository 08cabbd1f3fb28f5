// The same questions as in `acl/policy/tests.rs` of the hub: page and hub must answer alike.
import assert from "node:assert/strict";
import { test } from "node:test";
import { contains, intersects, matches, sources } from "../../src/lib/patterns.ts";
import { type Action, decide, refusal, type Rule } from "../../src/lib/rights.ts";

/** `(deny publish "a.*") (allow [subscribe admin] "b" :groups ["ops"])` */
function rules(text: string): Rule[] {
  return [...text.matchAll(/\((allow|deny) (\[[^\]]*\]|\S+)((?: "[^"]*")+)(?: :groups \[([^\]]*)\])?\)/g)].map(([, effect, actions = "", topics = "", groups]) => {
    const words = actions.replace(/[[\]]/g, "").split(" ");
    const quoted = (list: string) => [...list.matchAll(/"([^"]*)"/g)].map(([, one = ""]) => one);
    return {
      effect: effect as Rule["effect"],
      actions: words.flatMap((word) => (word === "*" ? ["publish", "subscribe"] : [word])),
      topics: quoted(topics),
      ...(groups === undefined ? {} : { groups: quoted(groups) }),
    };
  });
}

function parts(question: string): [Action, string, string | undefined] {
  const [action, target = "", group] = question.split(" ");
  return [action as Action, target, group?.replace("@", "")];
}

/** Each question with the rule that decides, from 1; 0 is no rule. */
function table(text: string, questions: readonly (readonly [string, "yes" | "no", number])[]): void {
  for (const [question, answer, rule] of questions) {
    const decision = decide(rules(text), ...parts(question));
    assert.deepEqual(decision, { allowed: answer === "yes", rule: rule === 0 ? undefined : rule - 1 }, `${question} of ${text}`);
  }
}

/** What is allowed, the sources of derived topics included. */
function allowed(text: string, questions: readonly (readonly [string, boolean])[]): void {
  for (const [question, expected] of questions) {
    assert.equal(refusal(rules(text), ...parts(question)) === undefined, expected, `${question} of ${text}`);
  }
}

test("the first rule that matches decides, and none means no", () => {
  table('(deny publish "a.secret") (allow publish "a.*") (deny publish "a.b") (allow publish "a.**")', [
    ["publish a.secret", "no", 1],
    ["publish a.b", "yes", 2],
    ["publish a.b.c", "yes", 4],
    ["publish a", "yes", 4],
    ["publish b", "no", 0],
    ["subscribe a.b", "no", 0],
  ]);
  table("", [["publish a", "no", 0], ["subscribe a", "no", 0], ["admin a", "no", 0]]);
});

test("a deny on a topic covers what is derived from it", () => {
  allowed('(deny subscribe "secret.**") (deny admin "secret.**") (allow subscribe "**") (allow admin "**")', [
    ["subscribe secret.x", false],
    ["subscribe dlq.secret.x", false],
    ["subscribe dlq.secret.x @ops", false],
    ["subscribe secret.x.snapshot", false],
    ["subscribe dlq.secret.x.snapshot", false],
    ["admin dlq.secret.x", false],
    ["subscribe dlq.**", false],
    ["subscribe **.snapshot", false],
    ["subscribe dlq.orders.**", true],
    ["subscribe dlq.orders", true],
    ["subscribe dlq", true],
    ["subscribe orders.snapshot", true],
    ["admin dlq.orders", true],
  ]);
});

test("a derived topic needs the right on itself and on its source", () => {
  allowed('(allow subscribe "orders.*")', [["subscribe dlq.orders.new", false], ["subscribe orders.snapshot", false]]);
  allowed('(allow subscribe "dlq.orders.*")', [["subscribe dlq.orders.new", false], ["subscribe dlq.orders.*", false]]);
  allowed('(allow subscribe "dlq.orders.*" "orders.*")', [["subscribe dlq.orders.new", true], ["subscribe dlq.orders.*", true], ["subscribe dlq.**", false]]);
  allowed('(allow admin "dlq.**")', [["admin dlq.orders", true], ["admin dlq.**", true], ["admin orders", false]]);
  allowed('(allow subscribe "dlq.orders" :groups ["ops"]) (allow subscribe "orders" :groups ["billing"])', [["subscribe dlq.orders @ops", false], ["subscribe orders @billing", true]]);
});

test("a star is publish and subscribe, and never admin", () => {
  table('(allow * "a")', [["publish a", "yes", 1], ["subscribe a", "yes", 1], ["subscribe a @g", "yes", 1], ["admin a", "no", 0]]);
  table('(deny * "a") (allow [publish subscribe admin] "a")', [["publish a", "no", 1], ["subscribe a", "no", 1], ["admin a", "yes", 2]]);
  const written: Rule[] = [{ effect: "allow", actions: ["*"], topics: ["a"] }];
  assert.deepEqual(["publish", "subscribe", "admin"].map((action) => decide(written, action as Action, "a").allowed), [true, true, false]);
});

test("a pattern is permitted only by a rule that contains all of it", () => {
  table('(allow subscribe "a.*" "a.*.**") (allow subscribe "b") (allow subscribe "b.*.**") (allow subscribe "c.**")', [
    ["subscribe a.*", "yes", 1],
    ["subscribe a.*.c", "yes", 1],
    ["subscribe a.**.c", "yes", 1],
    ["subscribe a.**", "no", 0],
    ["subscribe *.b", "no", 0],
    ["subscribe b.**", "no", 0],
    ["subscribe c.**", "yes", 4],
    ["subscribe c.x.*", "yes", 4],
    ["subscribe **", "no", 0],
  ]);
});

test("a pattern is forbidden by any part of it", () => {
  table('(deny subscribe "secret.**" "*.private") (allow subscribe "**")', [
    ["subscribe secret.a", "no", 1],
    ["subscribe secret.*", "no", 1],
    ["subscribe **", "no", 1],
    ["subscribe *", "no", 1],
    ["subscribe a.*", "no", 1],
    ["subscribe a.b.*", "yes", 2],
    ["subscribe a.b", "yes", 2],
    ["subscribe **.private", "no", 1],
    ["subscribe a.b.private", "yes", 2],
  ]);
  table('(allow subscribe "a.**") (deny subscribe "a.b") (allow subscribe "**")', [["subscribe a.*", "yes", 1], ["subscribe *.b", "no", 2], ["subscribe b.**", "yes", 3]]);
  table('(deny subscribe "dlq.**") (allow subscribe "**")', [["subscribe **", "no", 1], ["subscribe orders.**", "yes", 2]]);
});

test("a rule with groups is about subscribing with one of them", () => {
  table('(allow subscribe "a.**" :groups ["ops" "dev"])', [
    ["subscribe a.b @ops", "yes", 1],
    ["subscribe a.b @dev", "yes", 1],
    ["subscribe a.b @qa", "no", 0],
    ["subscribe a.b", "no", 0],
    ["subscribe a.* @ops", "yes", 1],
    ["subscribe a.* @qa", "no", 0],
    ["subscribe a.*", "no", 0],
  ]);
  table('(allow subscribe "a" :groups ["*"])', [["subscribe a @any", "yes", 1], ["subscribe a", "no", 0], ["publish a", "no", 0]]);
  table('(allow * "a" :groups ["ops"])', [["subscribe a @ops", "yes", 1], ["publish a", "no", 0], ["publish a @ops", "no", 0]]);
});

test("a deny with groups leaves the others to the rules behind it", () => {
  table('(deny subscribe "a.b" :groups ["ops"]) (allow subscribe "a.**")', [
    ["subscribe a.b @ops", "no", 1],
    ["subscribe a.* @ops", "no", 1],
    ["subscribe a.c @ops", "yes", 2],
    ["subscribe a.c.* @ops", "yes", 2],
    ["subscribe a.* @dev", "yes", 2],
    ["subscribe a.*", "yes", 2],
    ["subscribe a.b", "yes", 2],
  ]);
  table('(deny subscribe "a" :groups ["*"]) (allow subscribe "**")', [["subscribe * @any", "no", 1], ["subscribe *", "yes", 2], ["subscribe a", "yes", 2]]);
});

test("a rule without topics matches nothing", () => {
  assert.deepEqual(decide([{ effect: "allow", actions: ["publish"], topics: [] }], "publish", "a"), { allowed: false, rule: undefined });
});

test("a refusal names the rule, or the scope that is missing", () => {
  const some = rules('(deny admin "secret.**") (allow admin "orders.*")');
  assert.equal(refusal(some, "admin", "orders.new"), undefined);
  assert.equal(refusal(some, "admin", "secret.x"), "rule 1 of your token refuses it: deny admin on secret.**");
  assert.equal(refusal(some, "admin", "mail"), "no rule of your token allows admin on mail; it needs the scope admin:mail");
});

/** Every topic of up to five segments, of two that patterns name and one that they do not. */
function topics(): string[] {
  let longest = ["a", "b", "x"];
  const all = [...longest];
  for (let length = 2; length <= 5; length += 1) {
    longest = longest.flatMap((topic) => ["a", "b", "x"].map((segment) => `${topic}.${segment}`));
    all.push(...longest);
  }
  return all;
}

/** Every pattern of up to three segments. */
function patterns(): string[] {
  const segments = ["a", "b", "*", "**"];
  const two = segments.flatMap((one) => segments.map((other) => `${one}.${other}`));
  return [...segments, ...two, ...two.flatMap((start) => segments.map((one) => `${start}.${one}`))];
}

/** The words of the documentation and nothing else. */
function bySegments(pattern: readonly string[], topic: readonly string[]): boolean {
  const [first, ...rest] = pattern;
  if (first === undefined) return topic.length === 0;
  if (first === "**") return bySegments(rest, topic) || (topic.length > 0 && bySegments(pattern, topic.slice(1)));
  return topic.length > 0 && (first === "*" || first === topic[0]) && bySegments(rest, topic.slice(1));
}

test("matching, containing and intersecting are what the topics of small patterns say", () => {
  const all = topics();
  const matched = new Map(patterns().map((pattern) => [pattern, all.map((topic) => bySegments(pattern.split("."), topic.split(".")))]));
  for (const [pattern, own] of matched) {
    all.forEach((topic, at) => assert.equal(matches(pattern, topic), own[at], `${pattern} and ${topic}`));
    for (const [other, theirs] of matched) {
      assert.equal(intersects(pattern, other), own.some((is, at) => is && theirs[at] === true), `${pattern} and ${other}`);
      assert.equal(contains(pattern, other), theirs.every((is, at) => !is || own[at] === true), `${pattern} in ${other}`);
    }
  }
});

test("a derived topic is named with all that it is derived from", () => {
  assert.deepEqual(sources("dlq.orders.snapshot"), ["orders.snapshot", "orders"]);
  assert.deepEqual(sources("dlq"), []);
  assert.deepEqual(sources("orders"), []);
});
