import { HubError } from "./errors.ts";
import type { TopicOf } from "./topics.ts";
import type { EventRecord } from "./types.ts";

/** What the client uses of a validator that follows Standard Schema (https://standardschema.dev): zod, valibot, arktype and others do. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Validators by topic. */
export type Validators<Topics> = { readonly [Topic in TopicOf<Topics>]?: StandardSchema<unknown, Topics[Topic]> };

/** Checks the payload of a topic: returns what the validator made of it, or throws `schema_violation`. */
export type Check = (topic: string, payload: unknown) => unknown;

export function createCheck(validators: Readonly<Record<string, StandardSchema | undefined>>): Check {
  return (topic, payload) => {
    if (!Object.hasOwn(validators, topic)) return payload;
    const result = validators[topic]?.["~standard"].validate(payload);
    if (result === undefined) return payload;
    return result instanceof Promise ? result.then((later) => valueOf(topic, later)) : valueOf(topic, result);
  };
}

/** The event with what the validator made of its payload: a promise only if the validator takes its time. */
export function checkEvent(check: Check | undefined, event: EventRecord): EventRecord | Promise<EventRecord> {
  if (check === undefined) return event;
  const payload = check(event.topic, event.payload);
  return payload instanceof Promise ? payload.then((later) => ({ ...event, payload: later as unknown })) : { ...event, payload };
}

function valueOf(topic: string, result: SchemaResult<unknown>): unknown {
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path = [] }) => {
    const at = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
    return at === "" ? message : `${at}: ${message}`;
  });
  throw new HubError("schema_violation", `a payload that the validator of "${topic}" refuses: ${issues.join("; ")}`);
}
