import type { GroupOptions } from "./types.ts";

/** The options that both kinds of subscriptions have, as the hub wants them. */
export function wireOptions(options: Pick<GroupOptions, "from" | "topics" | "filter" | "ordering" | "coalesce" | "maxAttempts">): Record<string, unknown> {
  const { from, topics, filter, ordering, coalesce, maxAttempts } = options;
  const place = typeof from === "object" ? { from: Object.keys(from)[0], ...from } : { from };
  return { ...place, topics, filter, ordering, coalesce, maxAttempts };
}
