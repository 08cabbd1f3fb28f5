// The windows of this browser that look at this hub. Over HTTP/1.1 a browser opens six connections to a host, for all of its windows together:
// with a stream in each of six windows, no request would get through any more. So the windows tell each other which of them had the focus
// last, and only the first few of those have a stream.
import { signal } from "@preact/signals";

/** Windows with a stream. Two connections are left for requests. */
const MOST_STREAMS = 4;
const BEAT_MS = 1_000;
/** A window that has sent no beat for this time counts as closed. */
const SILENCE_MS = 3_500;

/** What a window says of itself. */
export type Beat = Readonly<{ id: string; focused: number; isVisible: boolean }>;
export type Heard = Beat & Readonly<{ at: number }>;

/** Whether a window may have a stream, as far as it has heard of the others. */
export function mayStream(own: Beat, others: Iterable<Heard>, now: number): boolean {
  let before = 0;
  for (const { id, focused, isVisible, at } of others) {
    const isAhead = focused > own.focused || (focused === own.focused && id < own.id);
    if (isVisible && isAhead && now - at < SILENCE_MS) before += 1;
  }
  return before < MOST_STREAMS;
}

/** False while other windows have the streams. */
export const isFirst = signal(true);

export function start(): void {
  const channel = new BroadcastChannel("event-hub-windows");
  const id = crypto.getRandomValues(new Uint32Array(2)).join("-");
  const others = new Map<string, Heard>();
  let focused = Date.now();
  const own = (): Beat => ({ id, focused, isVisible: document.visibilityState === "visible" });
  const decide = () => {
    const now = Date.now();
    for (const [one, { at }] of others) if (now - at >= SILENCE_MS) others.delete(one);
    isFirst.value = mayStream(own(), others.values(), now);
  };
  const beat = () => {
    channel.postMessage(own());
    decide();
  };
  channel.addEventListener("message", ({ data }: MessageEvent<Beat>) => {
    const isNew = !others.has(data.id);
    others.set(data.id, { ...data, at: Date.now() });
    // A new window gets to know the others at once.
    if (isNew) channel.postMessage(own());
    decide();
  });
  addEventListener("focus", () => {
    focused = Date.now();
    beat();
  });
  document.addEventListener("visibilitychange", beat);
  setInterval(beat, BEAT_MS);
  beat();
}
