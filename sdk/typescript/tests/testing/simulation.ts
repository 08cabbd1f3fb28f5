// Clients and a hub in one time that stands still until the simulation moves it: a run is the same every time for the same seed.

import { HubClient } from "../../src/client.ts";
import type { ClientOptions } from "../../src/options.ts";
import type { Platform } from "../../src/platform.ts";
import * as deferred from "../../src/deferred.ts";
import { MemoryHub, type MemoryHubOptions, type TokenClaims } from "../../src/testing/index.ts";

/** Numbers that look random: mulberry32. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

class SimulatedClient extends HubClient {
  constructor(platform: Platform, options: ClientOptions) {
    super(platform, options, undefined);
  }
}

export class Simulation {
  readonly hub: MemoryHub;
  readonly random: () => number;
  private readonly timers = new Set<{ at: number; run: () => void }>();

  constructor(seed: number, options: Omit<MemoryHubOptions, "clock"> = {}) {
    this.random = randomOf(seed);
    this.hub = new MemoryHub({ clock: "manual", now: 1_700_000_000_000, ...options });
  }

  /** One of several. */
  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.random() * choices.length)] as T;
  }

  client(claims: TokenClaims, options: Partial<ClientOptions> = {}): HubClient {
    const { hub } = this;
    return new SimulatedClient(this.platform(), {
      urls: [hub.url],
      token: () => hub.token(claims),
      webSocket: hub.webSocket,
      on: { log: () => undefined },
      ...options,
    });
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.setTimer(resolve, ms));
  }

  /** Lets so much time pass; what is due on the way happens at its time. */
  async advance(ms: number): Promise<void> {
    const { hub } = this;
    const end = hub.now + ms;
    for (;;) {
      await hub.idle();
      const due = Math.min(...[...this.timers].map((timer) => timer.at), hub.nextDue ?? Infinity);
      if (due > end) break;
      await hub.advance(Math.max(due - hub.now, 0));
      const ready = [...this.timers].filter((timer) => timer.at <= hub.now).sort((a, b) => a.at - b.at);
      for (const timer of ready) if (this.timers.delete(timer)) timer.run();
    }
    await hub.advance(end - hub.now);
  }

  private setTimer(run: () => void, ms: number): object {
    const timer = { at: this.hub.now + Math.max(ms, 0), run };
    this.timers.add(timer);
    return timer;
  }

  private platform(): Platform {
    return {
      openSocket: this.hub.webSocket,
      loadDeferred: () => deferred,
      steady: () => this.hub.now,
      wall: () => this.hub.now,
      setTimer: (run, ms) => this.setTimer(run, ms),
      clearTimer: (timer) => void this.timers.delete(timer as { at: number; run: () => void }),
      defer: (run) => queueMicrotask(() => queueMicrotask(run)),
      random: this.random,
      watchPage: () => () => undefined,
    };
  }
}
