// Dead letters: what a group writes of an event that it gives up.

import type { Burial } from "./dispatcher.ts";
import type { StoredEvent } from "./event.ts";
import type { NewEvent } from "../../rules/new-event.ts";
import type { Group } from "./group.ts";
import { derivedId } from "../../rules/ids.ts";
import { deadLetterTopic } from "../../rules/names.ts";

/** The record of an event that failed too often. Its id is the same for the same failure of the same event. */
export function letterOf(group: Group, burial: Burial, event: StoredEvent, now: number): { id: string; record: NewEvent } {
  const topic = group.log.name;
  const { seq, epoch, attempts, err } = burial;
  const payload =
    `{"topic":${JSON.stringify(topic)},"group":${JSON.stringify(group.name)},"original":${event.json},` +
    `"err":${JSON.stringify(err)},"ts":${now},"attempts":${attempts}}`;
  const record: NewEvent = {
    topic: deadLetterTopic(topic),
    payload,
    options: {
      ...(event.key === undefined ? {} : { key: event.key }),
      headers: [["x-hub-derived", "dead-letter"]],
    },
  };
  return { id: derivedId(["dlq", topic, group.name, group.born, epoch, seq]), record };
}
