import { WebSocket } from "ws";

interface Answer {
  op: string;
  corr?: string;
  results?: { code?: string }[];
  events?: { event: { id: string } }[];
  [field: string]: unknown;
}

/** A connection without a client: what a program would do that cares about nothing but speed. */
export class Bare {
  readonly #socket: WebSocket;
  readonly #answers = new Map<string, (answer: Answer) => void>();
  #corrs = 0;
  onEvents: (events: { event: { id: string } }[]) => void = () => undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: Buffer) => {
      const frame = JSON.parse(data.toString()) as Answer;
      if (frame.op === "EVENTS") return this.onEvents(frame.events ?? []);
      if (frame.op === "ERR") throw new Error(JSON.stringify(frame));
      const corr = frame.corr ?? "";
      const resolve = this.#answers.get(corr);
      this.#answers.delete(corr);
      resolve?.(frame);
    });
  }

  static async connect(url: string, token: string): Promise<Bare> {
    const socket = new WebSocket(url, { perMessageDeflate: false });
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    const bare = new Bare(socket);
    await bare.ask({ op: "AUTH", token });
    return bare;
  }

  ask(frame: object): Promise<Answer> {
    const corr = String(++this.#corrs);
    return new Promise((resolve) => {
      this.#answers.set(corr, resolve);
      this.#socket.send(JSON.stringify({ ...frame, corr }));
    });
  }

  close(): void {
    this.#socket.close();
  }
}
