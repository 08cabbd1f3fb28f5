// One topic by its name.
import { pages } from "./api.ts";
import type { Topic } from "./types.ts";

/** Topics whose names contain this one can come before it. */
export async function findTopic(name: string, signal: AbortSignal = new AbortController().signal): Promise<Topic | undefined> {
  let found: Topic | undefined;
  await pages<{ topics: Topic[]; next?: string }>("/topics", { q: name, limit: 1_000 }, signal, (page) => {
    found = page.topics.find((topic) => topic.name === name);
    return found !== undefined;
  });
  return found;
}
