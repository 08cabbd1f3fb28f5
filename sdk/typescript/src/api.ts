// What the package exports, whatever the platform.
export { type NewEvent } from "./client.ts";
export { type TokenRequest, type TokenSource } from "./connection/token.ts";
export { Retry, Return } from "./consume/outcome.ts";
export type * from "./consume/types.ts";
export { type ClientCode, type ErrorCode, type ErrorDetails, HubError, type HubCode } from "./errors.ts";
export { type ClientEvents, type ClientOptions, type LogLevel } from "./options.ts";
export { type PublishOptions } from "./publish/entry.ts";
export { type PendingLimits } from "./publish/publisher.ts";
export { type OpenSocket, type WebSocketLike } from "./socket.ts";
export { type HubState } from "./state.ts";
export { type AnyTopics, type EventOf, type PatternOf, type PayloadOf, type TopicOf, type Untyped } from "./topics.ts";
export type * from "./types.ts";
export { type SchemaIssue, type SchemaResult, type StandardSchema, type Validators } from "./validate.ts";
