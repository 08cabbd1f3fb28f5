// What the package exports, whatever the platform.
export { Retry, Return } from "./consume/outcome.ts";
export { HubError } from "./errors.ts";
export type { NewEvent } from "./client.ts";
export type { TokenRequest, TokenSource } from "./connection/token.ts";
export type * from "./consume/types.ts";
export type { ClientCode, ErrorCode, ErrorDetails, HubCode } from "./errors.ts";
export type { ClientEvents, ClientOptions, LogLevel } from "./options.ts";
export type { PublishOptions } from "./publish/entry.ts";
export type { PendingLimits } from "./publish/publisher.ts";
export type { OpenSocket, WebSocketLike } from "./socket.ts";
export type { HubState } from "./state.ts";
export type { AnyTopics, EventOf, PatternOf, PayloadOf, TopicOf, Untyped } from "./topics.ts";
export type * from "./types.ts";
export type { SchemaIssue, SchemaResult, StandardSchema, Validators } from "./validate.ts";
