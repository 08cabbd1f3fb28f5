// What members of groups need, and nobody else: a page that only publishes and watches does not load it.
export { createHandled } from "./handler.ts";
export { createIterator } from "./iterator.ts";
