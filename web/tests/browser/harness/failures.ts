// Dead letters, made as they are made in earnest: a consumer refuses events until the hub gives them up.
import type { Hub } from "./hub.ts";

/** Publishes the payloads, and has a group refuse each with the reason, so that it becomes a dead letter at once. */
export async function deadLetters(hub: Hub, topic: string, group: string, events: readonly Readonly<{ payload: string; key?: string; reason: string }>[]): Promise<void> {
  const socket = await hub.socket();
  await socket.subscribe(topic, group, { maxAttempts: 1 });
  for (const { payload, key, reason } of events) {
    await hub.publish(topic, payload, key);
    await socket.settle("NACK", group, await socket.next(), { reason });
  }
  socket.close();
}
