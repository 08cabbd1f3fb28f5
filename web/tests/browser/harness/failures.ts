// Makes dead letters as a consumer does: it refuses events until the hub gives them up.
import type { Hub } from "./hub.ts";
import { eventually } from "./world.ts";

/** Publishes the payloads, and has a group refuse each with the reason, so that it becomes a dead letter, and waits until all of them are. */
export async function deadLetters(hub: Hub, topic: string, group: string, events: readonly Readonly<{ payload: string; key?: string; reason: string }>[]): Promise<void> {
  const count = async () => (await hub.json<{ letters: number }>(`/dlq/summary?topic=${topic}&group=${group}`)).letters;
  const socket = await hub.socket();
  await socket.subscribe(topic, group, { maxAttempts: 1 });
  const before = await count();
  for (const { payload, key, reason } of events) {
    await hub.publish(topic, payload, key);
    await socket.settle("NACK", group, await socket.next(), { reason });
  }
  await eventually("all of them are dead letters", async () => (await count()) >= before + events.length);
  socket.close();
}
