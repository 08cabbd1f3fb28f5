export type { WebSocketLike, OpenSocket } from "./socket.ts";
export { HubError, type ErrorCode } from "./errors.ts";
export type * from "./types.ts";
