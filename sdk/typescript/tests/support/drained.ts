// Events of a real hub as the texts of its frames: reading them as JSON would round their numbers.

import { WebSocket } from "ws";
import type { Hub } from "./hub.ts";

/** The first events of a pattern, as they come. */
export async function drained(hub: Hub, pattern: string, count: number): Promise<string[]> {
  const socket = new WebSocket(hub.url);
  const texts: string[] = [];
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on("error", reject);
      socket.on("open", () => {
        socket.send(JSON.stringify({ op: "AUTH", token: hub.token() }));
        socket.send(JSON.stringify({ op: "SUBSCRIBE", topic: pattern, opts: { from: "earliest" } }));
      });
      socket.on("message", (data: Buffer) => {
        const text = data.toString();
        if (text.includes('"op":"ERR"')) reject(new Error(text));
        if (text.includes('"op":"EVENT"')) texts.push(text);
        if (texts.length === count) resolve();
      });
    });
  } finally {
    socket.close();
  }
  return texts;
}

/** The event of a frame. */
export function eventOf(text: string): { id: string; topic: string; key?: string; headers?: Record<string, string>; payload: unknown } {
  return (JSON.parse(text) as { event: ReturnType<typeof eventOf> }).event;
}
