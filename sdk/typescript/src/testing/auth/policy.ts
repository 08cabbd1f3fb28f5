// Rules, and how they decide: the first that is about an action and matches its topic. A subscription to a pattern is decided as a whole: a deny
// decides if a part of the pattern is its matter, an allow only if all of it is.

import { sourcesOf } from "../../rules/names.ts";
import type { Pattern } from "../engine/pattern.ts";

export type Action = "publish" | "subscribe" | "admin";

export interface Rule {
  effect: "allow" | "deny";
  actions: Action[];
  topics: Pattern[];
  /** With these, it is about subscribing with one of them (`*`: any), and never about a read without a group. */
  groups: string[] | undefined;
}

/** A topic by name, or all that a pattern matches. */
export type Subject = string | Pattern;

/** Stands for the token's subject in the groups of a rule. */
const SUBJECT = "{sub}";

export class Policy {
  readonly rules: readonly Rule[];

  constructor(rules: readonly Rule[]) {
    this.rules = rules;
  }

  /** The rules as they count for a subject. Without one, a group with `{sub}` in its name matches nothing. */
  forSubject(subject: string | undefined): Policy {
    const named = (group: string): string => {
      if (!group.includes(SUBJECT)) return group;
      const name = subject === undefined ? "" : group.replaceAll(SUBJECT, subject);
      return name === "*" ? "" : name;
    };
    return new Policy(this.rules.map((rule) => ({ ...rule, groups: rule.groups?.map(named) })));
  }

  /** Whether the action is allowed, and what the target is derived from does not forbid it. */
  allows(action: Action, target: Subject, group?: string): boolean {
    if (this.decide(action, target, group)?.effect !== "allow") return false;
    const sources = typeof target === "string" ? sourcesOf(target) : target.sources();
    return sources.every((source) => {
      const rule = this.decide(action, source, group);
      // Reading needs the right to read the source; for other actions it is enough that no rule forbids them there.
      return rule?.effect === "allow" || (action !== "subscribe" && rule === undefined);
    });
  }

  /** Whether a rule names the group for the target, or the target may be administrated: then the group may be another subject's. */
  namesGroup(target: Subject, group: string): boolean {
    return this.decide("subscribe", target, group)?.groups !== undefined || this.allows("admin", target);
  }

  private decide(action: Action, target: Subject, group: string | undefined): Rule | undefined {
    return this.rules.find((rule) => decides(rule, action, target, group));
  }
}

function decides(rule: Rule, action: Action, target: Subject, group: string | undefined): boolean {
  if (!rule.actions.includes(action)) return false;
  if (rule.groups) {
    if (group === undefined || action !== "subscribe") return false;
    if (!rule.groups.some((name) => name === "*" || name === group)) return false;
  }
  return rule.topics.some((topics) => {
    if (typeof target === "string") return topics.matches(target);
    return rule.effect === "deny" ? topics.intersects(target) : topics.contains(target);
  });
}
