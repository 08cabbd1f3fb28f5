// What the token may do, by the hub's own rules: the first one that decides counts. Only for what is shown: the hub checks every request.
import { contains, intersects, isPattern, matches, sources } from "./patterns.ts";

export type Action = "publish" | "subscribe" | "admin";
export type Rule = Readonly<{
  effect: "allow" | "deny";
  actions: readonly string[];
  topics: readonly string[];
  groups?: readonly string[];
}>;

export type Decision = Readonly<{ allowed: boolean; rule: number | undefined }>;

function decides(rule: Rule, action: Action, target: string, group: string | undefined): boolean {
  const means = rule.actions.includes(action) || (rule.actions.includes("*") && action !== "admin");
  if (!means) return false;
  // A rule with groups is about subscribing with one of them, and about nothing else.
  if (rule.groups !== undefined) {
    if (action !== "subscribe" || group === undefined) return false;
    if (!rule.groups.some((name) => name === "*" || name === group)) return false;
  }
  return rule.topics.some((topics) => {
    if (!isPattern(target)) return matches(topics, target);
    // A part of a pattern is enough to forbid it, and only all of it is enough to permit it.
    return rule.effect === "deny" ? intersects(topics, target) : contains(topics, target);
  });
}

/** Which rule decides about a topic or a pattern; what it is derived from is not asked about. */
export function decide(rules: readonly Rule[], action: Action, target: string, group?: string): Decision {
  const at = rules.findIndex((rule) => decides(rule, action, target, group));
  return at < 0 ? { allowed: false, rule: undefined } : { allowed: rules[at]?.effect === "allow", rule: at };
}

export function describe(rule: Rule): string {
  const groups = rule.groups === undefined ? "" : ` with ${rule.groups.join(", ")}`;
  return `${rule.effect} ${rule.actions.join(", ")} on ${rule.topics.join(", ")}${groups}`;
}

/** Why an action is refused; undefined if it is allowed. */
export function refusal(rules: readonly Rule[], action: Action, target: string, group?: string): string | undefined {
  const why = (about: string, { rule }: Decision) => {
    const found = rule === undefined ? undefined : rules[rule];
    if (rule !== undefined && found !== undefined) return `rule ${rule + 1} of your token refuses it: ${describe(found)}`;
    return `no rule of your token allows ${action} on ${about}; it needs the scope ${action}:${about}`;
  };
  const own = decide(rules, action, target, group);
  if (!own.allowed) return why(target, own);
  // What a derived topic shows is its source's: to read it needs the right there, for all else no rule may forbid it there.
  for (const source of sources(target)) {
    const decision = decide(rules, action, source, group);
    if (!decision.allowed && (action === "subscribe" || decision.rule !== undefined)) return why(source, decision);
  }
  return undefined;
}
