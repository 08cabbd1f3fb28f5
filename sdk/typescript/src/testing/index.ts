/** A hub in memory for unit tests; see {@link MemoryHub}. */
export { type DeadLetter, type GroupStatus, MemoryHub, type MemoryHubOptions } from "./memory-hub.ts";
export { type TokenClaims } from "./auth/token.ts";
export { type WrittenRule } from "./auth/claims.ts";
export { type HubLimits } from "./engine/hub-limits.ts";
export { type Position } from "./engine/log.ts";
export { Refusal, type RefusalCode } from "../rules/refusal.ts";
export { type FailureOptions } from "./session/failures.ts";
export { type MemorySocket } from "./socket.ts";
