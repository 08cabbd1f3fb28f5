// The rules that a token carries. What could be meant to forbid and would not do so is refused, never passed over.

import { checkGroup } from "../../rules/names.ts";
import { Pattern } from "../engine/pattern.ts";
import { Refusal, badRequest } from "../../rules/refusal.ts";
import { type Action, Policy, type Rule } from "./policy.ts";

/** A rule of a token, as it is written. */
export interface WrittenRule {
  effect: "allow" | "deny";
  action: string | string[];
  topics: string[];
  groups?: string[];
}

/** The most rules, patterns and groups of a policy. */
const MOST = 1000;
const RULE_FIELDS = ["effect", "action", "topics", "groups"];

/** The policy of a token: its `policy` if it has one, else its `scopes` and its `scope`. */
export function policyOf(claims: Record<string, unknown>): Policy {
  if (claims.policy !== undefined && claims.policy !== null) {
    return explained("policy", () => policyOfRules(claims.policy));
  }
  return explained("scopes", () => {
    const scopes: string[] = [];
    if (claims.scopes !== undefined && claims.scopes !== null) {
      if (!isStrings(claims.scopes)) throw badRequest("they are not a list of strings");
      scopes.push(...claims.scopes);
    }
    if (claims.scope !== undefined && claims.scope !== null) {
      if (typeof claims.scope !== "string") throw badRequest("scope is not a string");
      scopes.push(...claims.scope.split(/\s+/).filter((scope) => scope !== ""));
    }
    if (scopes.length > MOST) throw tooMany(scopes.length, "scopes");
    return new Policy(scopes.flatMap(ruleOfScope));
  });
}

function explained(claim: string, read: () => Policy): Policy {
  try {
    return read();
  } catch (error) {
    throw new Refusal("jwt_invalid", `the token's ${claim}: ${(error as Error).message}`);
  }
}

function policyOfRules(policy: unknown): Policy {
  const { rules, ...others } = objectOf(policy, "it is not an object {rules}");
  refuseOthers(others);
  if (!Array.isArray(rules)) throw badRequest("rules is not a list");
  const read = rules.slice(0, MOST + 1).map((written, at) => {
    try {
      return readRule(written);
    } catch (error) {
      throw badRequest(`rule ${at + 1}: ${(error as Error).message}`);
    }
  });
  if (read.length > MOST) throw tooMany(read.length, "rules");
  const patterns = read.reduce((sum, rule) => sum + rule.topics.length, 0);
  const groups = read.reduce((sum, rule) => sum + (rule.groups?.length ?? 0), 0);
  if (patterns > MOST) throw tooMany(patterns, "patterns");
  if (groups > MOST) throw tooMany(groups, "groups");
  return new Policy(read);
}

function readRule(written: unknown): Rule {
  const rule = objectOf(written, "it is not an object {effect, action, topics, groups?}");
  refuseOthers(Object.fromEntries(Object.entries(rule).filter(([name]) => !RULE_FIELDS.includes(name))));
  const { effect, action, topics, groups } = rule;
  if (effect !== "allow" && effect !== "deny") throw badRequest(`effect ${JSON.stringify(effect)} is neither allow nor deny`);
  const words = typeof action === "string" ? [action] : action;
  if (!isStrings(words)) throw badRequest("action: a string or a list of strings is expected");
  if (!isStrings(topics)) throw badRequest("topics: a list of patterns is expected");
  if (groups !== undefined && groups !== null && !isStrings(groups)) throw badRequest("groups: a list of strings is expected");
  const named = [...new Set(words.flatMap(actionsOf))];
  const names = groups ?? undefined;
  names?.forEach(checkRuleGroup);
  if (named.length === 0) throw badRequest("no action is named; publish, subscribe, admin or * is expected");
  if (names?.length === 0) {
    throw badRequest('groups is empty; leave it out to mean every reader, or name some, or "*" for any group');
  }
  if (names && !named.includes("subscribe")) {
    throw badRequest("groups go with subscribe only: a rule about other actions that has them would never match");
  }
  return { effect, actions: named, topics: topics.map((topic) => Pattern.parse(topic)), groups: names };
}

function checkRuleGroup(name: string): void {
  if (name !== "*") checkGroup(name.replaceAll("{sub}", "s"));
}

function actionsOf(word: string): Action[] {
  if (word === "publish" || word === "subscribe" || word === "admin") return [word];
  if (word === "*") return ["publish", "subscribe"];
  throw badRequest(`action ${JSON.stringify(word)} is none of publish, subscribe, admin, *`);
}

/** The rule of one scope; none if its first word is no action of the hub: it is another system's. */
function ruleOfScope(scope: string): Rule[] {
  const colon = scope.indexOf(":");
  const [word, pattern] = colon < 0 ? [scope, "**"] : [scope.slice(0, colon), scope.slice(colon + 1)];
  if (!["publish", "subscribe", "admin", "*"].includes(word)) return [];
  if (pattern === "") {
    throw badRequest(`scope "${scope}" has an empty pattern; write "${word}" or "${word}:**" for every topic`);
  }
  return [{ effect: "allow", actions: actionsOf(word), topics: [Pattern.parse(pattern)], groups: undefined }];
}

function refuseOthers(others: Record<string, unknown>): void {
  const [name] = Object.keys(others);
  if (name !== undefined) throw badRequest(`unknown field ${JSON.stringify(name)}`);
}

function objectOf(value: unknown, otherwise: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw badRequest(otherwise);
  return value as Record<string, unknown>;
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((part) => typeof part === "string");
}

function tooMany(count: number, what: string): Refusal {
  return badRequest(`${count} ${what} or more; a policy may have at most ${MOST}`);
}
