// Why a group delivers nothing: what it means, and what to do.

export type Advice = Readonly<{ title: string; means: string; fix: string; rank: number }>;

/** `rank`: the higher, the more it needs a person. */
export const REASONS: Readonly<Record<string, Advice>> = {
  store_unavailable: { title: "Store unavailable", rank: 9, means: "The store does not answer.", fix: "Look at the store: nothing is lost, and the group goes on when the store does." },
  parked_full: { title: "Parked full", rank: 8, means: "100,000 events wait for their time or their key, and the group reads no further.", fix: "One key or one cause holds up the rest: fix what the last failures name, or seek to the latest event to skip what is there." },
  key_blocked: { title: "Key blocked", rank: 7, means: "What is left waits for an older event of its key.", fix: "Look at the event that blocks the key. If its handler hangs, restart the member that holds it." },
  endpoint_failing: { title: "Endpoint failing", rank: 7, means: "The push endpoint does not take events.", fix: "Repair the endpoint; the hub tries it again by itself." },
  no_members: { title: "No members", rank: 6, means: "No consumer is connected with this group.", fix: "Start the consumer, or delete the group if nothing needs it." },
  window_full: { title: "Window full", rank: 5, means: "Every member holds as many events as it may.", fix: "Add members, raise maxInFlight, or fix what the handler waits for." },
  backoff: { title: "Backoff", rank: 4, means: "What is left has failed, and waits for its next try.", fix: "The last failures name the cause. After its last attempt each event becomes a dead letter." },
  paused: { title: "Paused", rank: 4, means: "Every member asked for a pause.", fix: "Let the consumer resume, or restart it." },
  rate_limited: { title: "Rate limited", rank: 3, means: "A rate limit holds the members back.", fix: "Raise the limit of the subject or of the topic, or wait." },
  taking_over: { title: "Taking over", rank: 2, means: "Another hub had the group, and its members have not reported yet.", fix: "Wait some seconds." },
  elsewhere: { title: "On another hub", rank: 1, means: "Another hub serves the group; this is what it saved last.", fix: "Look at that hub." },
  caught_up: { title: "Caught up", rank: 0, means: "Everything was delivered.", fix: "Nothing." },
};

/** A group that delivers and gets nowhere, by whatever reason it waits at the moment. */
const FAILING: Advice = { title: "Failing", rank: 5, means: "In the last minute events failed, and none was acked.", fix: "The last failures name the cause. After its last attempt each event becomes a dead letter." };

/** The least failures in a minute of a group that only fails; the hub goes by the same number. */
const LEAST_FAILURES = 3;

export function isFailing({ lag, rates }: Readonly<{ lag: number; rates?: Readonly<{ minute: Readonly<{ acked: number; nacked: number }> }> | undefined }>): boolean {
  return lag > 0 && rates !== undefined && rates.minute.acked === 0 && Math.round(rates.minute.nacked * 60) >= LEAST_FAILURES;
}

/** How long a group has been waiting; one that only fails delivers all the time. */
export function waitsSince(group: Readonly<{ since?: number | null; reason: string | null; isFailing: boolean }>): number | undefined {
  return adviceOf(group) === FAILING ? undefined : (group.since ?? undefined);
}

/** The advice for a group: that it is failing, unless its reason ranks as high. */
export function adviceOf(group: Readonly<{ reason: string | null; isFailing: boolean }>): Advice {
  const own = advice(group.reason);
  return group.isFailing && own.rank < FAILING.rank ? FAILING : own;
}

export function advice(reason: string | null): Advice {
  if (reason === null) return { title: "Delivering", rank: 0, means: "Events are being delivered.", fix: "Nothing." };
  return REASONS[reason] ?? { title: reason, rank: 3, means: "", fix: "" };
}
