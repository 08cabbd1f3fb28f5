// What the hub answers, as far as it is shown.

export type Rates<T> = Readonly<{ second: T; minute: T }>;
export type TopicRates = Readonly<{ published: number; bytes: number }>;
export type Spread = Readonly<{ p50: number; p99: number }>;
export type GroupRates = Readonly<{
  delivered: number;
  acked: number;
  nacked: number;
  redelivered: number;
  deadlettered: number;
  latencyMs?: Spread;
  handlerMs?: Spread;
}>;

export type Topic = Readonly<{
  name: string;
  first: number;
  last: number;
  events: number;
  bytes: number;
  lastCommitted: number | null;
  groups: number;
  rates: Rates<TopicRates>;
  settings?: Readonly<{
    retentionDays: number | null;
    retentionBytes: number | null;
    compaction: boolean;
    tombstoneGraceMs: number;
    durability: string;
    dedupeWindowMs: number;
  }>;
}>;

export type Group = Readonly<{
  topic: string;
  group: string;
  floor: number;
  last: number;
  lag: number;
  inflight: number;
  parked: number;
  members: number;
  reason: string | null;
  since?: number | null;
  owner?: string;
  oldestUnsettled?: Readonly<{ seq: number; ageMs?: number }> | null;
  options?: Readonly<{ filter: object; ordering: string; coalesce: boolean; maxAttempts: number }>;
  rates?: Rates<GroupRates>;
}>;

export type Member = Readonly<{
  inflight: number;
  ackTimeoutMs: number;
  paused: boolean;
  hasRoom: boolean;
  oldestHeldMs?: number | null;
  subject?: string;
  member?: number | string;
}>;

export type Failure = Readonly<{ seq: number; attempt: number; ts: number; reason?: string }>;

/** A group that another hub serves has no epoch, members and failures here. */
export type GroupDetail = Omit<Group, "members"> &
  Readonly<{
    epoch?: number;
    members?: readonly Member[];
    failures?: readonly Failure[];
    nextDeadlineMs?: number | null;
    blocking?: Readonly<{ seq: number; id?: string | null; key?: string | null; state?: string; member?: number | string; leftMs?: number }> | null;
  }>;

export type Letter = Readonly<{
  id: string;
  topic: string;
  group: string;
  seq: number;
  ts: number;
  err: string;
  attempts: number;
  key?: string;
  originalId: string;
  originalSeq: number;
  originalTs: number;
  replayOf?: string;
  replays: number;
  replayed?: number;
}>;

export type ErrorCount = Readonly<{ err: string; count: number; replayed: number; firstTs: number; lastTs: number }>;
export type Summary = Readonly<{
  letters: number;
  replayed: number;
  errors: readonly ErrorCount[];
  otherErrors: number;
  groups: readonly Readonly<{ topic: string; group: string; count: number; replayed: number; firstTs: number; lastTs: number }>[];
  otherGroups: number;
  complete: boolean;
  next?: string;
}>;

export type Job = Readonly<{
  job: string;
  kind: string;
  topic: string;
  subject?: string;
  state: string;
  total: number;
  complete: boolean;
  started: number;
  ended?: number;
  replayed: number;
  skipped: number;
  failed: number;
  reason?: string;
}>;

export type Problem =
  | (Readonly<{ kind: "group" }> & Pick<Group, "topic" | "group" | "reason" | "since" | "lag" | "inflight" | "parked" | "members" | "oldestUnsettled"> & Readonly<{ failing?: true }>)
  | Readonly<{ kind: "outbox"; outbox: string; connected: boolean; reason?: string; pending?: number; oldestAgeMs?: number; parked?: number }>
  | Readonly<{ kind: "push"; name: string; topic: string; group: string; state: string; reason?: string; lag?: number }>
  | Readonly<{ kind: "store"; reason?: string; warning?: string }>
  | Readonly<{ kind: "letters"; topic: string; group: string; count: number; lastTs: number }>;

export type OutboxRow = Readonly<{ id: string; topic: string; key?: string; status: string; ts: number; attempts: number; error?: string }>;
export type Outbox = Readonly<{
  name: string;
  connected: boolean;
  reason?: string;
  pending?: number;
  oldestAgeMs?: number | null;
  parked?: number;
  sent?: number;
  retries?: number;
  rows: readonly OutboxRow[];
}>;

/** A row of a tail or of a state: the payload is JSON text, cut. */
export type TailRow = Readonly<{
  seq: number;
  id: string;
  ts: number;
  committed?: number;
  key?: string;
  tags?: readonly string[];
  bytes: number;
  payload: string;
  cut: boolean;
}>;

export type StateRow = Readonly<{ key: string; seq: number; ts: number; committed?: number; id: string; bytes: number; payload: string; cut: boolean; deleted: boolean }>;

/** A whole record, with its payload as text. */
export type Record_ = Readonly<{
  id: string;
  seq: number;
  ts: number;
  topic: string;
  key?: string;
  sid?: string;
  headers?: Readonly<Record<string, string>>;
  tags?: readonly string[];
  caused_by?: readonly string[];
}>;
