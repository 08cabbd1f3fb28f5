// A hub in memory, a client of it whose frames are counted, and components that render what it says.

import "./dom.ts";
import { type ReactNode, StrictMode, act, createElement } from "react";
import { type Root, createRoot } from "react-dom/client";
import { PromClient } from "../../src/index.ts";
import { HubProvider } from "../../src/react/index.ts";
import { MemoryHub, type MemorySocket, type TokenClaims } from "../../src/testing/index.ts";

export class Stage {
  readonly hub = new MemoryHub();
  readonly client: PromClient;
  /** Frames that the client has sent, by their ops and topics. */
  readonly sent: string[] = [];
  sockets = 0;
  private readonly roots: Root[] = [];

  constructor(claims: TokenClaims = { sub: "page", scopes: ["subscribe:**"] }) {
    this.client = new PromClient({
      urls: [this.hub.url],
      token: this.hub.token(claims),
      webSocket: (url) => this.counted(this.hub.webSocket(url)),
      backoff: { first: 1, longest: 1 },
      on: { log: () => undefined },
    });
  }

  /** How often the client has sent this op. */
  count(op: string): number {
    return this.sent.filter((frame) => frame.startsWith(`${op} `)).length;
  }

  /** Renders something below a provider, and waits for what comes of it. */
  async render(element: ReactNode, { strict = false }: { strict?: boolean } = {}): Promise<{ text: () => string; show(element: ReactNode): Promise<void>; unmount(): Promise<void> }> {
    const container = document.createElement("div");
    const root = createRoot(container);
    this.roots.push(root);
    const show = async (shown: ReactNode): Promise<void> => {
      const provided = createElement(HubProvider, { client: this.client }, shown);
      await act(async () => {
        root.render(strict ? createElement(StrictMode, undefined, provided) : provided);
        await this.hub.idle();
      });
    };
    await show(element);
    return {
      text: () => container.textContent ?? "",
      show,
      unmount: async () => {
        await act(async () => {
          root.render(null);
          await this.hub.idle();
        });
      },
    };
  }

  /** Does something, and waits until components have heard of it. */
  async after(run: () => unknown): Promise<void> {
    await act(async () => {
      await run();
      await this.hub.idle();
    });
  }

  /** Resolves when the client stands so. */
  reached(is: string): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.client.onState((state) => {
        if (state.is !== is) return;
        stop();
        resolve();
      });
    });
  }

  async end(): Promise<void> {
    await act(async () => {
      for (const root of this.roots) root.unmount();
      await this.client.close();
    });
  }

  private counted(socket: MemorySocket): MemorySocket {
    this.sockets += 1;
    const send = socket.send.bind(socket);
    socket.send = (data) => {
      const { op, topic = "" } = JSON.parse(data as string) as { op: string; topic?: string };
      this.sent.push(`${op} ${topic}`);
      send(data);
    };
    return socket;
  }
}
