import assert from "node:assert/strict";
import { HubClient } from "../../src/client.ts";
import type { ClientOptions } from "../../src/options.ts";
import type { AnyTopics } from "../../src/topics.ts";
import type { HubState } from "../../src/state.ts";
import { ManualPlatform, settle } from "./clock.ts";
import { FakeServer, type FakeSocket } from "./server.ts";

/** The client on a platform of the test's. */
export class TestClient<Topics extends object = AnyTopics> extends HubClient<Topics> {
  constructor(platform: ManualPlatform, options: ClientOptions<Topics>) {
    super(platform, options, undefined);
  }
}

export interface Log {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A client, its server and its clock. */
export interface Setup<Topics extends object = AnyTopics> {
  readonly server: FakeServer;
  readonly platform: ManualPlatform;
  readonly hub: TestClient<Topics>;
  readonly states: HubState[];
  readonly logs: Log[];
}

export function setUp<Topics extends object = AnyTopics>(options: Partial<ClientOptions<Topics>> = {}): Setup<Topics> {
  const server = new FakeServer();
  const platform = new ManualPlatform(server.open);
  const states: HubState[] = [];
  const logs: Log[] = [];
  const hub = new TestClient<Topics>(platform, {
    urls: ["ws://hub.test"],
    token: "a-token",
    ...options,
    on: {
      ...options.on,
      state(state) {
        states.push(state);
        options.on?.state?.(state);
      },
      log: (level, message, fields) => void logs.push({ level, message, fields }),
    },
  });
  return { server, platform, hub, states, logs };
}

/** The same, connected. */
export async function setUpConnected<Topics extends object = AnyTopics>(
  options: Partial<ClientOptions<Topics>> = {},
  auth: object = {},
): Promise<Setup<Topics> & { socket: FakeSocket }> {
  const parts = setUp<Topics>(options);
  const connected = parts.hub.connect();
  const socket = await parts.server.accept(auth);
  await connected;
  await settle();
  return { ...parts, socket };
}

/** What a promise is at the moment. */
export async function stateOf(promise: Promise<unknown>): Promise<"pending" | "resolved" | "rejected"> {
  const pending = Symbol("pending");
  await settle();
  return Promise.race([promise, Promise.resolve(pending)]).then(
    (value) => (value === pending ? "pending" : "resolved"),
    () => "rejected" as const,
  );
}

/** A promise and its handles. */
export function deferred<Value = void>(): { promise: Promise<Value>; resolve: (value: Value) => void; reject: (error: Error) => void } {
  let resolve!: (value: Value) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<Value>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** The state of a client, which has to be this one. */
export function inState<Is extends HubState["is"]>(hub: { readonly state: HubState }, is: Is): Extract<HubState, { is: Is }> {
  const { state } = hub;
  assert.equal(state.is, is, `the client is in another state: ${JSON.stringify(state)}`);
  return state as Extract<HubState, { is: Is }>;
}
