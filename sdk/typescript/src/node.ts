// The entry for Node, which has no WebSocket before version 22.
import { setMaxListeners } from "node:events";
import { type ClientOptions as SocketOptions, WebSocket } from "ws";
import { HubClient } from "./client.ts";
import type { TokenSource } from "./connection/token.ts";
import * as deferred from "./deferred.ts";
import type { ClientOptions } from "./options.ts";
import { createPlatform } from "./platform.ts";
import type { AnyTopics } from "./topics.ts";

export * from "./api.ts";

/** `closeTimeout` ends a socket whose peer does not answer; its timer would keep the program alive for 30 s. The types do not know it yet. */
const OPTIONS: SocketOptions & { closeTimeout: number } = { perMessageDeflate: false, closeTimeout: 5_000 };

/** A client of an event-hub. `Topics` names its topics and the types of their payloads. */
export class PromClient<Topics extends object = AnyTopics> extends HubClient<Topics> {
  constructor(url: string, token?: TokenSource);
  constructor(options: ClientOptions<Topics>);
  constructor(target: string | ClientOptions<Topics>, token?: TokenSource) {
    const platform = createPlatform((url) => new WebSocket(url, OPTIONS), () => deferred);
    super({ ...platform, heed: (signal) => signal && setMaxListeners(0, signal) }, target, token);
  }
}
