// The entry for browsers, workers, Deno and Bun: they have the class WebSocket. A part of it is loaded by import(), which service workers forbid:
// they use the entry `event-hub-client/service-worker`.
import { HubClient } from "./client.ts";
import type { TokenSource } from "./connection/token.ts";
import type { ClientOptions } from "./options.ts";
import { createPlatform } from "./platform.ts";
import type { AnyTopics } from "./topics.ts";

export * from "./api.ts";

/** A client of an event-hub. `Topics` names its topics and the types of their payloads. */
export class PromClient<Topics extends object = AnyTopics> extends HubClient<Topics> {
  constructor(url: string, token?: TokenSource);
  constructor(options: ClientOptions<Topics>);
  constructor(target: string | ClientOptions<Topics>, token?: TokenSource) {
    super(createPlatform((url) => new WebSocket(url), () => import("./deferred.ts")), target, token);
  }
}
