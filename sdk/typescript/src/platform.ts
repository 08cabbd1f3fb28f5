import type * as Deferred from "./deferred.ts";
import type { OpenSocket } from "./socket.ts";

/** Loads the part of the client that is not needed for a connection and for watchers. */
export type LoadDeferred = () => typeof Deferred | Promise<typeof Deferred>;

/** What a page tells its client. */
export type PageEvent = "wake" | "hidden" | "visible" | "suspend";

/** All that the client needs of what it runs on. The tests bring a clock that they move by hand. */
export interface Platform {
  openSocket: OpenSocket;
  loadDeferred: LoadDeferred;
  /** Milliseconds of a clock that never goes back. */
  steady(): number;
  /** Milliseconds since 1970. */
  wall(): number;
  setTimer(run: () => void, ms: number): unknown;
  clearTimer(timer: unknown): void;
  /** Runs something soon, after what is running and what is ready to run. */
  defer(run: () => void): void;
  /** Called before the client listens to a signal, which may be for many things at once: Node warns of a leak from the 11th listener on. */
  heed?(signal: AbortSignal | undefined): void;
  /** From 0 up to 1. */
  random(): number;
  /** Tells of the page's events, and at once whether the page is hidden or visible; returns what ends it. */
  watchPage(tell: (event: PageEvent) => void): () => void;
}

/** Browsers, workers, Deno, Bun, and Node with a socket of its own. */
export function createPlatform(openSocket: OpenSocket, loadDeferred: LoadDeferred): Platform {
  return {
    openSocket,
    loadDeferred,
    steady: () => performance.now(),
    wall: () => Date.now(),
    setTimer: (run, ms) => setTimeout(run, ms),
    clearTimer: (timer) => clearTimeout(timer as number),
    defer: (run) => queueMicrotask(() => queueMicrotask(run)),
    random: Math.random,
    watchPage,
  };
}

interface EventSource {
  addEventListener(type: string, listener: () => void): void;
  removeEventListener(type: string, listener: () => void): void;
}

/** Node has none of these; a worker has `online` and nothing else. */
function watchPage(tell: (event: PageEvent) => void): () => void {
  const globals: Partial<EventSource> & { document?: EventSource & { visibilityState: "hidden" | "visible" } } = globalThis;
  const page = globals.document;
  const undo: (() => void)[] = [];
  const listen = (source: Partial<EventSource> | undefined, type: string, listener: () => void): void => {
    source?.addEventListener?.(type, listener);
    undo.push(() => source?.removeEventListener?.(type, listener));
  };
  listen(globals, "online", () => tell("wake"));
  if (page !== undefined) {
    listen(globals, "pageshow", () => tell("wake"));
    listen(page, "resume", () => tell("wake"));
    const tellVisibility = (): void => tell(page.visibilityState);
    listen(page, "visibilitychange", tellVisibility);
    tellVisibility();
    listen(globals, "pagehide", () => tell("suspend"));
    listen(page, "freeze", () => tell("suspend"));
  }
  return () => {
    for (const run of undo) run();
  };
}
