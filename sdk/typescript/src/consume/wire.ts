import type { GroupOptions, Place } from "./types.ts";

/** The options that both kinds of subscriptions have, as the hub wants them. */
export function wireOptions(options: Place & Pick<GroupOptions, "topics" | "filter" | "ordering" | "coalesce" | "maxAttempts">): Record<string, unknown> {
  const { from, topics, filter, ordering, coalesce, maxAttempts } = options;
  const place = typeof from === "object" ? { from: Object.keys(from)[0], ...from } : { from, [from ?? ""]: options[from as "ts"] };
  return { ...place, topics, filter, ordering, coalesce, maxAttempts };
}
