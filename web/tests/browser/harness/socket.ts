// A client of the gateway, as small as the tests need it: groups are joined and events are refused by it.

type Frame = Readonly<Record<string, unknown>>;
export type Delivered = Readonly<{ topic: string; id: string; seq: number; key?: string }>;

export class Socket {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, { done: (frame: Frame) => void; failed: (error: Error) => void }>();
  readonly #delivered: Delivered[] = [];
  #wake: (() => void) | undefined;
  #requests = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", (message) => this.#take(JSON.parse(String(message.data)) as Frame));
    socket.addEventListener("close", () => {
      for (const { failed } of this.#waiting.values()) failed(new Error("the hub closed the connection"));
      this.#waiting.clear();
    });
  }

  static async connect(address: string, token: string): Promise<Socket> {
    const socket = new WebSocket(address);
    await new Promise<void>((done, failed) => {
      socket.addEventListener("open", () => done());
      socket.addEventListener("error", () => failed(new Error(`no connection to ${address}`)));
    });
    const client = new Socket(socket);
    await client.request({ op: "AUTH", token });
    return client;
  }

  /** Sends a request; an ERR is thrown. */
  request(frame: Frame): Promise<Frame> {
    this.#requests += 1;
    const corr = String(this.#requests);
    const answer = new Promise<Frame>((done, failed) => this.#waiting.set(corr, { done, failed }));
    this.#socket.send(JSON.stringify({ ...frame, corr }));
    return answer;
  }

  /** Publishes many events, 1,000 in a frame. */
  async publish(events: readonly Readonly<{ topic: string; payload: unknown; opts?: object }>[]): Promise<void> {
    for (let from = 0; from < events.length; from += 1_000) {
      const answer = await this.request({ op: "PUBLISH", events: events.slice(from, from + 1_000) });
      const bad = (answer["results"] as Frame[]).find((result) => result["code"] !== undefined);
      if (bad !== undefined) throw new Error(`an event was refused: ${JSON.stringify(bad)}`);
    }
  }

  async subscribe(topic: string, group: string, opts: object = {}): Promise<void> {
    await this.request({ op: "SUBSCRIBE", topic, group, opts: { from: "earliest", ...opts } });
  }

  /** The next event that is delivered to any group of this connection. */
  async next(): Promise<Delivered> {
    for (;;) {
      const event = this.#delivered.shift();
      if (event !== undefined) return event;
      await new Promise<void>((done) => {
        this.#wake = done;
      });
    }
  }

  async settle(op: "ACK" | "NACK", group: string, event: Delivered, more: object = {}): Promise<void> {
    await this.request({ op, topic: event.topic, group, id: event.id, ...more });
  }

  close(): void {
    this.#socket.close();
  }

  #take(frame: Frame): void {
    if (frame["op"] === "EVENT") {
      this.#delivered.push(frame["event"] as Delivered);
      this.#wake?.();
      return;
    }
    const waiting = this.#waiting.get(String(frame["corr"]));
    if (waiting === undefined) return;
    this.#waiting.delete(String(frame["corr"]));
    if (frame["op"] === "OK") waiting.done(frame);
    else waiting.failed(new Error(`${String(frame["code"])}: ${String(frame["msg"])}`));
  }
}
