// What the tests have in their pages and workers, as the global `lab`: a client, what it has told, and a load of events.
import { type ClientOptions, type HubState, PromClient, type SubscribeOptions } from "../../../src/index.ts";
import { Condition } from "../../support/condition.ts";
import { KeyedLoad } from "./load.ts";

export interface Topics {
  "orders.created": { id: number };
  steps: { key: string; n: number };
}

/** Without a list of topics: there is one. */
export type OrderOptions = Omit<SubscribeOptions, "topics">;

class Lab {
  readonly states: HubState[] = [];
  /** Events in the order in which they came. */
  readonly handled: number[] = [];
  /** Handlers of orders that have been started and have not ended. */
  running = 0;
  /** Events that have come over sockets of `countingSocket`. */
  deliveries = 0;
  /** Why the signals of handlers were aborted. */
  readonly aborted: string[] = [];
  /** Names of what the page was told, in order. */
  readonly pageEvents: string[] = [];
  readonly #changed = new Condition();
  #client: PromClient<Topics> | undefined;
  #load: KeyedLoad | undefined;
  #openGate: (() => void) | undefined;
  #gate = Promise.resolve();

  get client(): PromClient<Topics> {
    if (this.#client === undefined) throw new Error("call lab.open first");
    return this.#client;
  }

  get load(): KeyedLoad {
    if (this.#load === undefined) throw new Error("call lab.startLoad first");
    return this.#load;
  }

  open(url: string, token: string, options: Partial<ClientOptions<Topics>> = {}): void {
    this.#client = new PromClient<Topics>({
      urls: [url],
      token,
      ...options,
      on: {
        log: () => undefined,
        state: (state) => {
          this.states.push(state);
          this.#changed.changed();
        },
      },
    });
  }

  /** Counts the events that come over the sockets of the client, also those that the client does not give to a handler. */
  readonly countingSocket = (url: string): WebSocket => {
    const socket = new WebSocket(url);
    socket.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(String(data)) as { op: string; events?: unknown[] };
      if (frame.op === "EVENT") this.deliveries++;
      if (frame.op === "EVENTS") this.deliveries += frame.events?.length ?? 0;
      this.#changed.changed();
    });
    return socket;
  };

  /** Waits until something is so. It is looked at whenever the client or the page tells something, or a handler ends. */
  until(isTrue: () => boolean): Promise<void> {
    return this.#changed.until(isTrue);
  }

  /** Waits for the next connection after the client has been in so many states. */
  async readyAfter(states: number): Promise<void> {
    await this.until(() => this.states.length > states && this.states.at(-1)?.is === "ready");
  }

  /** Handles orders. A handler ends when the gate is open, and `handled` has the order then. */
  async handleOrders(group: string, options: OrderOptions = {}): Promise<void> {
    await this.client.subscribe(
      "orders.created",
      group,
      async (event, ctx) => {
        ctx.signal.addEventListener("abort", () => this.aborted.push(String(ctx.signal.reason)));
        this.running++;
        this.#changed.changed();
        await this.#gate;
        this.running--;
        this.handled.push(event.payload.id);
        this.#changed.changed();
      },
      options,
    );
  }

  closeGate(): void {
    this.#gate = new Promise((resolve) => (this.#openGate = resolve));
  }

  openGate(): void {
    this.#openGate?.();
  }

  /** Notes what the browser tells the page. */
  notePageEvents(): void {
    const note = (name: string): void => {
      this.pageEvents.push(name);
      this.#changed.changed();
    };
    addEventListener("pagehide", (event) => note(`pagehide${event.persisted ? " persisted" : ""}`));
    addEventListener("pageshow", (event) => note(`pageshow${event.persisted ? " persisted" : ""}`));
    document.addEventListener("visibilitychange", () => note(document.visibilityState));
    for (const type of ["freeze", "resume"]) document.addEventListener(type, () => note(type));
  }

  async startLoad(keys: number): Promise<void> {
    this.#load = new KeyedLoad(this.client, this.#changed, keys);
    await this.#load.start();
  }
}

declare global {
  var lab: Lab;
}

globalThis.lab = new Lab();
// A worker tells that it is there.
if (globalThis.document === undefined) postMessage("loaded");
