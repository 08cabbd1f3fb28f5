// The part of the client that a page loads after the rest: what it needs to publish, and to be a member of a group.
export { createIterator } from "./consume/iterator.ts";
export { subscribe } from "./consume/join.ts";
export { createPublisher } from "./publish/publisher.ts";
