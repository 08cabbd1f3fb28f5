// The bus: topics, groups, and the subscriptions that drive several groups. It has no clock and no I/O: every call is told the time, and what is
// to be sent is collected until the caller takes it.

import { type Cover, type Target, checkPosition, covers, isSameCover } from "./cover.ts";
import { type NewEvent, checkNewEvent } from "../../rules/new-event.ts";
import { Group } from "./group.ts";
import { IdGenerator } from "../../rules/ids.ts";
import { letterOf } from "./letters.ts";
import type { HubLimits } from "./hub-limits.ts";
import { MAX_DELAY_MS, MAX_IN_FLIGHT } from "../../rules/limits.ts";
import { type Position, type Receipt, TopicLog } from "./log.ts";
import { type Delivery, Member } from "./member.ts";
import { deadLetterTopic, derivation, rootOf } from "../../rules/names.ts";
import { DEFAULT_OPTIONS, type Filter, type GroupOptions, type GroupRequest, checkRequest, conflicts, merged } from "./options.ts";
import { Quotas } from "./quota.ts";
import { Reader, type Watched } from "./reader.ts";
import { Refusal, badRequest } from "../../rules/refusal.ts";

/** What is to be sent, in this order. */
export type Action =
  | { is: "delivery"; to: Member; delivery: Delivery }
  | { is: "watched"; to: Reader; watched: Watched }
  /** The subscription is over. */
  | { is: "ended"; to: Member; error: Refusal };

/** Who joins a group, and how. */
export interface JoinRequest {
  target: Target;
  group: string;
  from: Position;
  options: GroupRequest;
  maxInFlight: number;
  ackTimeout: number;
  /** Whom it counts for what is made; undefined: the test itself. */
  subject: string | undefined;
  /** Groups of other subjects are refused. */
  ownGroups: boolean;
}

/** A durable subscription to several topics: it drives one ordinary group on each. */
interface Fan {
  label: string;
  group: string;
  cover: Cover;
  options: GroupOptions;
  maker: string | undefined;
  members: Map<Member, number>;
}

export class Bus {
  private readonly limits: HubLimits;
  private readonly ids = new IdGenerator();
  private readonly quotas: Quotas;
  private readonly topics = new Map<string, TopicLog>();
  private readonly groups = new Map<string, Map<string, Group>>();
  private readonly fans = new Map<string, Fan>();
  private readonly readers = new Map<Reader, Cover>();
  private readonly members = new Set<Member>();
  /** Groups that may have something to deliver. */
  private readonly dirty = new Set<Group>();
  private actions: Action[] = [];

  constructor(limits: HubLimits) {
    this.limits = limits;
    this.quotas = new Quotas(limits.subjectTopics, limits.subjectGroups);
  }

  // ---- looking ----

  topic(name: string): TopicLog | undefined {
    return this.topics.get(name);
  }

  group(topic: string, name: string): Group | undefined {
    return this.groups.get(topic)?.get(name);
  }

  /** The groups that a subscription to a topic, a pattern or a label has, and whether there is such a subscription. */
  groupsOf(name: string, group: string): Group[] | undefined {
    const fan = this.fans.get(fanKey(name, group));
    if (!fan) {
      const one = this.group(name, group);
      return one ? [one] : undefined;
    }
    return this.coveredTopics(fan.cover).flatMap((log) => this.group(log.name, group) ?? []);
  }

  /** The topics of a list that is there. */
  listedTopics(label: string, group: string): string[] {
    const cover = this.fans.get(fanKey(label, group))?.cover;
    return cover?.is === "list" ? cover.topics : [];
  }

  // ---- publishing ----

  /** Makes the id that an event gets: known before it is stored, for answers that say that this may have failed. */
  idFor(event: NewEvent, now: number): string {
    return event.options.id ?? this.ids.next(now);
  }

  /** Refuses an event that is bad in itself, or whose topic may not be made. */
  checkPublish(event: NewEvent, subject: string | undefined): void {
    checkNewEvent(event, this.limits.payloadBytes);
    this.openTopic(event.topic, subject);
  }

  publish(event: NewEvent, id: string, now: number): Receipt {
    return this.append(this.bornTopic(event.topic), event, id, now);
  }

  private append(log: TopicLog, event: NewEvent, id: string, now: number): Receipt {
    const receipt = log.append(event, id, now);
    for (const group of this.groups.get(log.name)?.values() ?? []) this.dirty.add(group);
    return receipt;
  }

  /** The topic, made on behalf of a subject if it is not there. */
  private openTopic(name: string, subject: string | undefined): TopicLog {
    const known = this.topics.get(name);
    if (known) return known;
    if (!derivation(name)) this.quotas.takeTopic(subject);
    else if (!this.topics.has(rootOf(name))) {
      const root = rootOf(name);
      throw badRequest(`topic ${name} is derived from ${root}, and there is no topic ${root}; publish to that first`);
    }
    return this.bornTopic(name);
  }

  /** The topic, with the groups of the subscriptions that cover it and their members. */
  private bornTopic(name: string): TopicLog {
    const known = this.topics.get(name);
    if (known) return known;
    const log = new TopicLog(name);
    this.topics.set(name, log);
    this.groups.set(name, new Map());
    for (const fan of this.fans.values()) {
      if (!covers(fan.cover, name)) continue;
      const group = this.group(name, fan.group) ?? this.makeGroup(log, fan.group, fan.options, fan.maker, 0, true);
      for (const [member, ackTimeout] of fan.members) group.join(member, ackTimeout);
    }
    for (const [reader, cover] of this.readers) if (covers(cover, name)) reader.follow(log, 0);
    return log;
  }

  // ---- groups ----

  /** Joins a group, made or changed if need be. Answers how many topics the member has. */
  join(request: JoinRequest): { member: Member; topics: number } {
    checkRequest(request.options);
    checkRange("maxInFlight", request.maxInFlight, MAX_IN_FLIGHT);
    checkRange("ackTimeoutMs", request.ackTimeout, MAX_DELAY_MS);
    const member = new Member(request, (to, delivery) => this.actions.push({ is: "delivery", to, delivery }));
    const groups = request.target.is === "one" ? [this.joinOne(request.target.topic, request)] : this.joinSeveral(request, member);
    this.members.add(member);
    for (const group of groups) {
      group.join(member, request.ackTimeout);
      this.dirty.add(group);
    }
    return { member, topics: groups.length };
  }

  private joinOne(topic: string, request: JoinRequest): Group {
    const log = this.openTopic(topic, request.subject);
    const known = this.group(topic, request.group);
    if (known) {
      this.checkMaker(request, known.maker);
      this.adapt(known, request);
      return known;
    }
    const start = log.resolve(request.from);
    this.quotas.checkGroups(request.subject, 1);
    this.quotas.addGroups(request.subject, 1);
    return this.makeGroup(log, request.group, merged(request.options, DEFAULT_OPTIONS), request.subject, start, false);
  }

  private joinSeveral(request: JoinRequest, member: Member): Group[] {
    if (request.target.is !== "several") return [];
    const { label, cover } = request.target;
    const key = fanKey(label, request.group);
    const known = this.fans.get(key);
    for (const fan of this.fans.values()) if (fan.group === request.group) this.checkMaker(request, fan.maker);
    const differs = known ? conflicts(request.options, known.options) : [];
    if (known && !isSameCover(known.cover, cover)) differs.push("topics is another list");
    if (known && differs.length > 0 && known.members.size > 0) throw conflict(request.group, differs);
    if (!known) checkPosition(request.target, request.from);
    const options = merged(request.options, known?.options ?? DEFAULT_OPTIONS);
    // First everything that can refuse, then everything that changes.
    const logs = this.coveredTopics(cover);
    const made: TopicLog[] = [];
    for (const log of logs) {
      const group = this.group(log.name, request.group);
      if (group) {
        this.checkMaker(request, group.maker);
        this.checkOptions(group, request);
      } else made.push(log);
    }
    const wanted = made.length + (known ? 0 : 1);
    this.quotas.checkGroups(request.subject, wanted);
    this.quotas.addGroups(request.subject, wanted);
    for (const log of logs) {
      const group = this.group(log.name, request.group);
      if (group) group.setOptions(merged(request.options, group.options));
      else this.makeGroup(log, request.group, options, request.subject, log.resolve(request.from), true);
    }
    const fan: Fan = known ?? { label, group: request.group, cover, options, maker: request.subject, members: new Map() };
    const left = known ? this.coveredTopics(known.cover) : [];
    fan.cover = cover;
    fan.options = options;
    fan.members.set(member, request.ackTimeout);
    this.fans.set(key, fan);
    this.deleteDriven(left, request.group);
    return logs.flatMap((log) => this.group(log.name, request.group) ?? []);
  }

  private makeGroup(
    log: TopicLog,
    name: string,
    options: GroupOptions,
    maker: string | undefined,
    start: number,
    isDriven: boolean,
  ): Group {
    const born = this.topics.get(deadLetterTopic(log.name))?.last ?? 0;
    const { maxParked } = this.limits;
    const group = new Group({ log, name, maker, born, isDriven, options, start, maxParked });
    this.groups.get(log.name)?.set(name, group);
    return group;
  }

  /** Deletes the groups that a list has made on topics that it has no longer, unless somebody else drives them. */
  private deleteDriven(logs: TopicLog[], name: string): void {
    for (const log of logs) {
      const group = this.group(log.name, name);
      const isDriven = [...this.fans.values()].some((fan) => fan.group === name && covers(fan.cover, log.name));
      if (group?.isDriven !== true || isDriven) continue;
      if (group.members.size > 0) group.isDriven = false;
      else this.groups.get(log.name)?.delete(name);
    }
  }

  /** Refuses a group of another subject. Tokens without a subject have none to be told apart by: what they made is for all. */
  private checkMaker({ ownGroups, subject, group }: JoinRequest, maker: string | undefined): void {
    if (!ownGroups || maker === undefined || maker === "" || maker === subject) return;
    throw new Refusal(
      "forbidden",
      `group ${group} belongs to another subject; use a group of your own, or have a rule that names it in \`groups\``,
    );
  }

  private checkOptions(group: Group, request: JoinRequest): void {
    const differs = conflicts(request.options, group.options);
    if (differs.length > 0 && group.members.size > 0) throw conflict(group.name, differs);
  }

  private adapt(group: Group, request: JoinRequest): void {
    this.checkOptions(group, request);
    group.setOptions(merged(request.options, group.options));
  }

  /** A member leaves. With `blame` it has vanished: the event that it had in hand for longest may be what killed it. */
  leave(member: Member, blame: boolean, now: number): void {
    const groups = [...member.groups];
    const taken = groups.map((group) => group.oldestTaken(member) ?? Infinity);
    const oldest = Math.min(...taken);
    const blamed = blame && oldest < Infinity ? groups[taken.indexOf(oldest)] : undefined;
    for (const group of groups) {
      group.leave(member, group === blamed, now);
      this.dirty.add(group);
    }
    for (const fan of this.fans.values()) fan.members.delete(member);
    this.members.delete(member);
  }

  /** Holds a member's deliveries up, or lets them go on, in all its groups. */
  setPaused(member: Member, paused: boolean): void {
    member.isPaused = paused;
    for (const group of member.groups) {
      group.setPaused(member, paused);
      this.dirty.add(group);
    }
  }

  /** Something was settled: its groups may go on. */
  touched(member: Member): void {
    for (const group of member.groups) this.dirty.add(group);
  }

  /** Places a group anew, and raises its epoch. */
  seek(topic: string, name: string, to: Position): void {
    const group = this.group(topic, name);
    if (!group) throw badRequest(`topic ${topic} has no group ${name}`);
    group.setCursor(group.log.resolve(to));
    this.dirty.add(group);
  }

  /** Deletes a group, or a subscription with all its groups. Members' subscriptions end. */
  deleteGroup(name: string, group: string, now: number): void {
    const groups = this.groupsOf(name, group);
    if (!groups) throw badRequest(`there is no group ${group} on ${name}`);
    const error = new Refusal("not_subscribed", `group ${group} was deleted; subscribe again to make it anew`);
    const members = new Set([...groups.flatMap((one) => [...one.members]), ...(this.fans.get(fanKey(name, group))?.members.keys() ?? [])]);
    for (const member of members) {
      this.leave(member, false, now);
      this.actions.push({ is: "ended", to: member, error });
    }
    this.fans.delete(fanKey(name, group));
    for (const one of groups) this.groups.get(one.log.name)?.delete(group);
  }

  // ---- reading without a group ----

  watch(target: Target, from: Position, wants: { filter: Filter; coalesce: boolean }): Reader {
    checkPosition(target, from);
    const cover: Cover = target.is === "one" ? { is: "list", topics: [target.topic] } : target.cover;
    const reader = new Reader(wants, this.limits.tailBytes);
    for (const log of this.coveredTopics(cover)) reader.follow(log, log.resolve(from));
    this.readers.set(reader, cover);
    return reader;
  }

  unwatch(reader: Reader): void {
    this.readers.delete(reader);
  }

  // ---- going on ----

  /** Delivers everything that can be delivered, and buries what failed too often. Answers what is to be sent. */
  run(now: number): Action[] {
    for (const groups of this.groups.values()) {
      for (const group of groups.values()) {
        const due = group.nextDeadline();
        if (due !== undefined && due <= now) this.dirty.add(group);
      }
    }
    while (this.dirty.size > 0) {
      for (const group of [...this.dirty]) {
        this.dirty.delete(group);
        group.pump(now);
        this.bury(group, now);
      }
      for (const member of this.members) {
        if (!member.hasFreedRoom) continue;
        member.hasFreedRoom = false;
        for (const group of member.groups) {
          group.hasRoomAgain(member);
          this.dirty.add(group);
        }
      }
    }
    for (const reader of this.readers.keys()) {
      for (const watched of reader.take()) this.actions.push({ is: "watched", to: reader, watched });
    }
    const { actions } = this;
    this.actions = [];
    return actions;
  }

  /** When something is due, if nothing happens before. */
  nextDue(): number | undefined {
    const dues = [...this.groups.values()].flatMap((groups) => [...groups.values()].flatMap((group) => group.nextDeadline() ?? []));
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  private bury(group: Group, now: number): void {
    for (const burial of group.burials()) {
      const event = group.log.at(burial.seq);
      if (event) {
        const { id, record } = letterOf(group, burial, event, now);
        const log = this.bornTopic(record.topic);
        // One that exists counts as written.
        if (!log.find(id)) this.append(log, record, id, now);
      }
      group.buried(burial.seq);
      this.dirty.add(group);
    }
  }

  private coveredTopics(cover: Cover): TopicLog[] {
    if (cover.is === "list") return cover.topics.flatMap((name) => this.topics.get(name) ?? []);
    return [...this.topics.values()].filter((log) => covers(cover, log.name));
  }
}

function conflict(group: string, differs: string[]): Refusal {
  return new Refusal(
    "group_conflict",
    `group ${group} has members and other options: ${differs.join(", ")}; leave them out to take the stored values, or wait until the group has no members`,
  );
}

function checkRange(name: string, got: number, max: number): void {
  if (got < 1 || got > max) throw badRequest(`${name} is ${got}; it must be 1 to ${max}`);
}

function fanKey(label: string, group: string): string {
  return `${label}\n${group}`;
}
