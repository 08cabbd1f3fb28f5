// A hub in memory, for the tests of programs that use one.

import type { Durability, EventOptions, EventRecord, Receipt } from "../types.ts";
import { type TokenClaims, mintToken } from "./auth/token.ts";
import { type Clock, ManualClock, RealClock } from "./clock.ts";
import type { NewEvent } from "../rules/new-event.ts";
import { parseId } from "../rules/ids.ts";
import { DEFAULT_LIMITS, type HubLimits } from "./engine/hub-limits.ts";
import type { Position } from "./engine/log.ts";
import { deadLetterTopic } from "../rules/names.ts";
import { type RefusalCode, badRequest } from "../rules/refusal.ts";
import { type FailureOptions, Failures } from "./session/failures.ts";
import { Host } from "./session/host.ts";
import { SERVICE_RESTART, type Session } from "./session/session.ts";
import { MemorySocket } from "./socket.ts";
import { Wire, nextTask } from "./wire.ts";

/** How a {@link MemoryHub} differs from its defaults. */
export interface MemoryHubOptions {
  /** `"manual"`: time stands still until `advance` moves it. `"real"`, the default, goes by `Date` and `setTimeout`. */
  clock?: "real" | "manual";
  /** Where a manual clock begins, in milliseconds since 1970; now, unless given. */
  now?: number;
  /** What receipts say of how safe an event is; `"memory"` unless given. */
  durable?: Durability;
  /** The secret of tokens that your own code signs with HS256; `token` uses it, too. */
  secret?: string;
  limits?: Partial<HubLimits>;
}

/** A dead letter, as its payload has it. */
export interface DeadLetter<Payload = unknown> {
  topic: string;
  group: string;
  original: EventRecord<Payload>;
  err: string;
  ts: number;
  attempts: number;
}

/** How a group is doing. */
export interface GroupStatus {
  /** Everything up to this seq is settled. */
  floor: number;
  /** Events behind it that are not settled, those included that were not looked at yet. */
  unsettled: number;
  /** Events that consumers have. */
  leased: number;
  /** Events that wait: for their time, or for an older one of their key. */
  parked: number;
  members: number;
}

const SECRET = "the secret of hubs in memory, which everybody may know";
/** How long `settled` waits unless told otherwise. */
const SETTLED_WITHIN_MS = 5_000;

let hubs = 0;

/**
 * A hub in memory: the protocol and the semantics of the real one, without a network and a disk. A `PromClient` talks to it unchanged.
 *
 * It does not check payloads against JSON Schemas. To test what a program does about a refused payload, call `fail("schema_violation")`.
 *
 * ```ts
 * const hub = new MemoryHub();
 * const client = new PromClient({ urls: [hub.url], token: hub.token({ scopes: ["*:orders"] }), webSocket: hub.webSocket });
 * ```
 */
export class MemoryHub {
  /** The address for `urls`. Nothing listens there: `webSocket` leads to this hub. */
  readonly url: string;
  private readonly secret: string;
  private readonly wire = new Wire();
  private readonly failures = new Failures();
  private readonly clock: Clock;
  private readonly host: Host;
  private readonly sockets = new Map<MemorySocket, Session>();
  private isStopped = false;
  /** Told when something may have changed. */
  private readonly watchers = new Set<() => void>();

  constructor(options: MemoryHubOptions = {}) {
    hubs += 1;
    this.url = `ws://memory-hub-${hubs}.invalid/`;
    this.secret = options.secret ?? SECRET;
    const onTime = (): void => {
      this.host.act();
      this.changed();
    };
    this.clock = options.clock === "manual" ? new ManualClock(onTime, options.now ?? Date.now()) : new RealClock(onTime);
    this.host = new Host({
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      secret: this.secret,
      durable: options.durable ?? "memory",
      failures: this.failures,
      now: () => this.clock.now(),
    });
  }

  /** Opens a socket to this hub: the option `webSocket` of `PromClient`. */
  readonly webSocket = (url: string = this.url): MemorySocket => {
    const socket: MemorySocket = new MemorySocket(url, this.wire, (link) => {
      if (this.isStopped) return undefined;
      const session = this.host.connect(link);
      this.sockets.set(socket, session);
      this.changed();
      return {
        hear: (text) => this.step(() => session.hear(text)),
        gone: () => this.step(() => session.gone()),
      };
    });
    return socket;
  };

  /** A token for this hub. Without scopes and policy it allows nothing. */
  token(claims: TokenClaims = { scopes: ["*:**", "admin"] }): string {
    return mintToken(this.secret, claims, this.clock.now());
  }

  // ---- events ----

  /** Publishes an event as nobody in particular: no right is asked for. */
  publish<Payload>(topic: string, payload: Payload, options: EventOptions = {}): Receipt {
    const receipt = this.host.publish(newEvent(topic, payload, options), undefined);
    this.host.flush();
    this.changed();
    const { duplicate, ...rest } = receipt;
    return { ...rest, durable: this.host.settings.durable, ...(duplicate ? { duplicate } : {}) };
  }

  /** All events of a topic, oldest first. */
  events<Payload = unknown>(topic: string): EventRecord<Payload>[] {
    const stored = this.host.bus.topic(topic)?.all() ?? [];
    return stored.map((event) => JSON.parse(event.json) as EventRecord<Payload>);
  }

  /** What groups have given up of a topic, oldest first. */
  deadLetters<Payload = unknown>(topic: string): DeadLetter<Payload>[] {
    return this.events<DeadLetter<Payload>>(deadLetterTopic(topic)).map((event) => event.payload);
  }

  // ---- groups ----

  /** How a group is doing; `topic` may also be a pattern or the label of a list. Undefined if there is none. */
  group(topic: string, group: string): GroupStatus | undefined {
    const groups = this.host.bus.groupsOf(topic, group);
    if (!groups) return undefined;
    const sum = (counts: number[]): number => counts.reduce((all, one) => all + one, 0);
    const members = new Set(groups.flatMap((one) => [...one.members]));
    return {
      floor: groups.length === 0 ? 0 : Math.min(...groups.map((one) => one.floor)),
      unsettled: sum(groups.map((one) => one.unsettled)),
      leased: sum(groups.map((one) => one.leased)),
      parked: sum(groups.map((one) => one.parked)),
      members: members.size,
    };
  }

  /**
   * Resolves when the group has settled every event of its topic, or of all topics of its pattern or list. Rejects if that takes longer than
   * `timeoutMs` of real time, and says what is open.
   */
  async settled(topic: string, group: string, { timeoutMs = SETTLED_WITHIN_MS }: { timeoutMs?: number } = {}): Promise<void> {
    const isSettled = (): boolean => this.host.bus.groupsOf(topic, group)?.every((one) => one.unsettled === 0) === true;
    const isInTime = await this.until(isSettled, timeoutMs);
    if (isInTime) return;
    const status = this.group(topic, group);
    const why = status
      ? `${status.unsettled} are open: ${status.leased} events are with ${status.members} consumers, ${status.parked} wait`
      : "there is no such group: nobody has subscribed with it";
    throw new Error(`group ${group} of ${topic} has not settled its events within ${timeoutMs} ms: ${why}`);
  }

  /** Places a group anew, as an operator does. Events that it gets again have a higher `epoch`. */
  seek(topic: string, group: string, to: Position): void {
    this.step(() => this.host.bus.seek(topic, group, to));
  }

  /** Deletes a group, or a subscription to a pattern or a list with all its groups. Consumers' subscriptions end. */
  deleteGroup(topic: string, group: string): void {
    this.step(() => this.host.bus.deleteGroup(topic, group, this.clock.now()));
  }

  // ---- trouble ----

  /** The next publish fails with this code. See {@link FailureOptions} for which, how many, and whether it is stored all the same. */
  fail(code: RefusalCode, options: FailureOptions = {}): void {
    this.failures.add(code, options);
  }

  /** How many connections are open. */
  get connections(): number {
    return this.host.sessions.size;
  }

  /** Cuts connections, as a broken network does: those of a subject, or all. What was on the way is lost. Answers how many. */
  drop({ sub }: { sub?: string } = {}): number {
    const cut = [...this.sockets].filter(([, session]) => !session.isClosed && (sub === undefined || session.sub === sub));
    for (const [socket] of cut) socket.cut();
    return cut.length;
  }

  /** Takes back all tokens of a subject: its connections end, and it needs new ones. */
  revoke(sub: string): void {
    this.step(() => this.host.revoke(sub));
  }

  /**
   * Stops the hub as for a restart: what was sent before is answered, then every connection is closed with 1012. Leased events come again, and
   * nothing counts as failed. Topics and groups stay. With `abruptly`, as when its process is killed: connections break.
   */
  async stop({ abruptly = false }: { abruptly?: boolean } = {}): Promise<void> {
    this.isStopped = true;
    for (const session of this.host.sessions) session.drain();
    if (abruptly) for (const [socket] of this.sockets) socket.cut();
    else await this.wire.idle();
    for (const session of [...this.host.sessions]) session.close(SERVICE_RESTART, "the hub is stopping; come back in a moment");
    this.host.detached.releaseAll(this.clock.now());
    this.host.flush();
    this.changed();
    await this.wire.idle();
  }

  /** Takes connections again after a stop. */
  start(): void {
    this.isStopped = false;
  }

  // ---- time ----

  /** The hub's clock, in milliseconds since 1970. */
  get now(): number {
    return this.clock.now();
  }

  /** Moves a manual clock on. Whatever comes due on the way happens at its time, and clients have their turn in between. */
  async advance(ms: number): Promise<void> {
    const { clock } = this;
    if (!(clock instanceof ManualClock)) {
      throw new Error('the hub goes by the real time; make it with { clock: "manual" } to move its clock');
    }
    const end = clock.now() + ms;
    await this.wire.idle();
    for (let due = clock.nextDue; due !== undefined && due <= end; due = clock.nextDue) {
      clock.moveTo(due);
      await this.wire.idle();
    }
    clock.moveTo(end);
    await this.wire.idle();
  }

  /** When something is due next on a manual clock: a lease, a backoff, a token. */
  get nextDue(): number | undefined {
    return this.host.nextDue();
  }

  /** Resolves when no frame is on the way and everything that was ready to run has run. */
  async idle(): Promise<void> {
    await this.wire.idle();
  }

  // ---- inside ----

  /** Something that a client does; afterwards the hub delivers what it can. */
  private step(run: () => void): void {
    run();
    this.host.flush();
    this.changed();
  }

  private changed(): void {
    for (const [socket, session] of this.sockets) if (session.isClosed) this.sockets.delete(socket);
    this.clock.wakeAt(this.host.nextDue());
    for (const watcher of [...this.watchers]) watcher();
  }

  /** Waits until something holds; false if it does not in time. */
  private async until(holds: () => boolean, timeoutMs: number): Promise<boolean> {
    await nextTask();
    if (holds()) return true;
    return new Promise((resolve) => {
      const done = (is: boolean): void => {
        clearTimeout(timer);
        this.watchers.delete(look);
        resolve(is);
      };
      const look = (): void => {
        if (holds()) done(true);
      };
      const timer = setTimeout(() => done(false), timeoutMs);
      this.watchers.add(look);
    });
  }
}

function newEvent(topic: string, payload: unknown, options: EventOptions): NewEvent {
  const text = JSON.stringify(payload) as string | undefined;
  if (text === undefined) throw badRequest("the payload is nothing that JSON has");
  const { id, ts, key, sid, headers, caused_by: causedBy, tags } = options;
  const parsed = id === undefined ? undefined : parseId(id);
  if (id !== undefined && parsed === undefined) throw badRequest(`id ${id} is no UUID`);
  return {
    topic,
    payload: text,
    options: {
      ...(parsed === undefined ? {} : { id: parsed }),
      ...(ts === undefined ? {} : { ts }),
      ...(key === undefined ? {} : { key }),
      ...(sid === undefined ? {} : { sid }),
      ...(headers === undefined ? {} : { headers: Object.entries(headers) }),
      ...(causedBy === undefined ? {} : { causedBy: [...causedBy] }),
      ...(tags === undefined ? {} : { tags: [...tags] }),
    },
  };
}
