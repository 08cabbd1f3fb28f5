// The protocol fixtures as they are written, and their placeholders; `protocol/README.md` says what each part means.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import type { TokenClaims } from "../../src/testing/index.ts";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Fixture {
  name: string;
  hub?: Partial<Record<HubSetting, number>> & { schemas?: Json };
  tokens?: Record<string, FixtureToken>;
  connections?: Record<string, { token: string | null }>;
  steps: Step[];
}

export type HubSetting =
  | "payload_bytes"
  | "frame_bytes"
  | "batch_events"
  | "subscriptions"
  | "connection_rate"
  | "subject_topics"
  | "subject_groups"
  | "auth_timeout_ms"
  | "expiry_grace_ms"
  | "reconnect_grace_ms"
  | "clock_tolerance_s";

export interface FixtureToken extends Pick<TokenClaims, "sub" | "scopes" | "policy"> {
  ttl_s?: number;
  without_exp?: boolean;
  forged?: boolean;
}

export type Step =
  | { from: string; send: Json }
  | { from: string; text: string }
  | { from: string; binary: string }
  | { to: string; expect: Json }
  | { to: string; any_order: Json[] }
  | { silent: string }
  | { to: string; closed: number }
  | { leave: string }
  | { hub: "drain" | { revoke: string } };

const directory = new URL("../../../../protocol/", import.meta.url);

/** Every fixture, by file. */
export function allFixtures(): { file: string; fixtures: Fixture[] }[] {
  const files = readdirSync(directory).filter((file) => file.endsWith(".json"));
  return files.sort().map((file) => {
    const text = readFileSync(new URL(file, directory), "utf8");
    return { file, fixtures: (JSON.parse(text) as { fixtures: Fixture[] }).fixtures };
  });
}

/** The connections that a fixture has. */
export function connectionsOf(fixture: Fixture): Set<string> {
  return new Set(
    fixture.steps.flatMap((step) => {
      if ("from" in step) return [step.from];
      if ("to" in step) return [step.to];
      if ("silent" in step) return [step.silent];
      return "leave" in step ? [step.leave] : [];
    }),
  );
}

/** What placeholders with a name stand for, by their whole text. */
export class Bound {
  private values: Map<string, Json>;
  private readonly durable: string;

  constructor(durable: string, values: Map<string, Json> = new Map()) {
    this.durable = durable;
    this.values = values;
  }

  bind(placeholder: string, value: Json): void {
    this.values.set(placeholder, value);
  }

  /** What is sent for a pattern. A `$uuid:name` that nobody has seen yet is made. */
  fill(pattern: Json): Json {
    if (typeof pattern === "string") return pattern.startsWith("$") ? this.valueOf(pattern) : pattern;
    if (pattern === null || typeof pattern !== "object") return pattern;
    if (Array.isArray(pattern)) return pattern.map((part) => this.fill(part));
    const [[name, parts] = ["", null], ...others] = Object.entries(pattern);
    if (others.length === 0 && name.startsWith("$") && Array.isArray(parts)) {
      const [what = null, times] = parts;
      if (name === "$repeat" && typeof what === "string") return what.repeat(Number(times));
      if (name === "$list") return Array.from({ length: Number(times) }, () => this.fill(what));
    }
    return Object.fromEntries(Object.entries(pattern).map(([field, part]) => [field, this.fill(part)]));
  }

  /** Where a value is not what the pattern says; undefined if it is. Nothing is bound by a pattern that does not fit. */
  difference(pattern: Json, value: Json): string | undefined {
    const tried = new Bound(this.durable, new Map(this.values));
    try {
      tried.compare("", pattern, value);
    } catch (error) {
      return (error as Error).message;
    }
    this.values = tried.values;
    return undefined;
  }

  private valueOf(placeholder: string): Json {
    const known = this.values.get(placeholder);
    if (known !== undefined) return known;
    assert.ok(placeholder.startsWith("$uuid:"), `${placeholder} is sent, but nothing has set it`);
    const id = `00000000-0000-4000-8000-${(this.values.size + 1).toString(16).padStart(12, "0")}`;
    this.values.set(placeholder, id);
    return id;
  }

  private compare(at: string, pattern: Json, value: Json): void {
    if (typeof pattern === "string" && pattern.startsWith("$")) return this.placeholder(at, pattern, value);
    if (Array.isArray(pattern) && Array.isArray(value) && pattern.length === value.length) {
      return pattern.forEach((part, index) => this.compare(`${at}[${index}]`, part, value[index] ?? null));
    }
    const isPattern = pattern !== null && typeof pattern === "object" && !Array.isArray(pattern);
    if (isPattern && typeof value === "string" && Array.isArray(pattern.$text)) {
      for (const part of pattern.$text) {
        if (typeof part !== "string" || !value.includes(part)) throw new Error(`${at}: ${JSON.stringify(part)} is not in ${JSON.stringify(value)}`);
      }
      return;
    }
    if (isPattern && value !== null && typeof value === "object" && !Array.isArray(value)) {
      for (const [name, found] of Object.entries(value)) {
        if (!(name in pattern)) throw new Error(`${at}.${name}: ${JSON.stringify(found)} came, nothing was expected`);
      }
      for (const [name, part] of Object.entries(pattern)) {
        const found = value[name];
        if (found === undefined) throw new Error(`${at}.${name}: ${JSON.stringify(part)} was expected, nothing came`);
        this.compare(`${at}.${name}`, part, found);
      }
      return;
    }
    if (JSON.stringify(pattern) === JSON.stringify(value)) return;
    throw new Error(`${at}: ${JSON.stringify(pattern)} was expected, ${JSON.stringify(value)} came`);
  }

  private placeholder(at: string, text: string, value: Json): void {
    const known = this.values.get(text);
    if (known !== undefined) {
      if (JSON.stringify(known) === JSON.stringify(value)) return;
      throw new Error(`${at}: ${text} is ${JSON.stringify(known)}, ${JSON.stringify(value)} came`);
    }
    const [kind, name] = text.split(":");
    if (!this.fits(kind ?? text, value)) throw new Error(`${at}: ${text} was expected, ${JSON.stringify(value)} came`);
    if (name !== undefined) this.values.set(text, value);
  }

  private fits(kind: string, value: Json): boolean {
    switch (kind) {
      case "$any":
        return true;
      case "$uuid":
        return typeof value === "string" && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value);
      case "$number":
        return typeof value === "number";
      case "$text":
        return typeof value === "string";
      case "$durable":
        return value === this.durable;
      default:
        throw new Error(`${kind} is no placeholder`);
    }
  }
}
