import type { EventRecord } from "./types.ts";

/** Topics by name with the types of their payloads, if nothing is said of them. */
export type AnyTopics = Record<string, unknown>;

/** The topics that can be published to. */
export type TopicOf<Topics> = keyof Topics & string;

/** What can be subscribed to: topics, and patterns. */
export type PatternOf<Topics> = TopicOf<Topics> | `${string}*${string}`;

/** `string` if the client has no `Topics` map, else nothing: then types that are given by hand are not for it. */
export type Untyped<Topics> = AnyTopics extends Topics ? string : never;

/** A pattern as a type of the topics that it covers; `*` counts as any text. */
type Glob<Pattern extends string> = Pattern extends `${infer Before}*${infer After}`
  ? `${Before}${string}${Glob<After>}`
  : Pattern;

type Covered<Topics, Pattern extends string> = {
  [Topic in TopicOf<Topics>]: Topic extends Glob<Pattern> ? Topic : never;
}[TopicOf<Topics>];

/** The payload of a topic. */
export type PayloadOf<Topics, Topic extends string> = Topic extends keyof Topics ? Topics[Topic] : unknown;

type EachEvent<Topics, Topic> = Topic extends TopicOf<Topics> ? EventRecord<Topics[Topic], Topic> : never;

/** The events of a topic or of a pattern: of several topics a union, told apart by `event.topic`. */
export type EventOf<Topics, Pattern extends string> = Pattern extends keyof Topics
  ? EventRecord<Topics[Pattern], Pattern>
  : [Covered<Topics, Pattern>] extends [never]
    ? EventRecord
    : EachEvent<Topics, Covered<Topics, Pattern>>;
