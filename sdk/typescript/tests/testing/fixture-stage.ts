// Carries out the steps of a fixture with a hub in memory.

import { MemoryHub, type MemoryHubOptions, type MemorySocket, type TokenClaims } from "../../src/testing/index.ts";
import { mintToken } from "../../src/testing/auth/token.ts";
import { Bound, type Fixture, type FixtureToken, type Json, type Step, connectionsOf } from "./fixture-format.ts";

/** A step that waits for a frame moves the clock this far at most: what takes longer must not happen at all. */
const PATIENCE_MS = 5_000;

/** A connection that is driven by frames. */
export class Client {
  readonly frames: string[] = [];
  closed: number | undefined;
  readonly socket: MemorySocket;
  readonly opened: Promise<void>;

  constructor(hub: MemoryHub) {
    this.socket = hub.webSocket(hub.url);
    this.socket.addEventListener("message", ({ data }) => this.frames.push(String(data)));
    this.socket.addEventListener("close", ({ code }) => (this.closed = code));
    this.opened = new Promise((resolve) => this.socket.addEventListener("open", () => resolve()));
  }

  send(frame: Json): void {
    this.socket.send(JSON.stringify(frame));
  }
}

export class Stage {
  readonly hub: MemoryHub;
  private readonly clients = new Map<string, Client>();
  private readonly bound: Bound;
  private probes = 0;

  private constructor(fixture: Fixture) {
    this.hub = new MemoryHub({ clock: "manual", ...optionsOf(fixture) });
    this.bound = new Bound("memory");
    for (const [name, token] of Object.entries(fixture.tokens ?? {})) {
      const text = tokenOf(this.hub, token);
      this.bound.bind(`$token:${name}`, text);
      this.bound.bind(`$exp:${name}`, expOf(text));
    }
  }

  static async set(fixture: Fixture): Promise<Stage> {
    const stage = new Stage(fixture);
    for (const name of connectionsOf(fixture)) {
      const client = new Client(stage.hub);
      stage.clients.set(name, client);
      await client.opened;
      const connection = fixture.connections?.[name];
      if (connection?.token === null) continue;
      const token = connection ? stage.bound.fill(`$token:${connection.token}`) : stage.hub.token();
      client.send({ op: "AUTH", token });
      const answer = await stage.next(name);
      if ((answer as { op?: Json }).op !== "OK") throw new Error(`connection ${name}: ${JSON.stringify(answer)}`);
    }
    return stage;
  }

  async act(step: Step): Promise<void> {
    if ("send" in step) this.client(step.from).send(this.bound.fill(step.send));
    else if ("text" in step) this.client(step.from).socket.send(step.text);
    else if ("binary" in step) this.client(step.from).socket.send(new TextEncoder().encode(step.binary));
    else if ("expect" in step) await this.expect(step.to, [step.expect]);
    else if ("any_order" in step) await this.expect(step.to, [...step.any_order]);
    else if ("silent" in step) await this.silent(step.silent);
    else if ("closed" in step) await this.closed(step.to, step.closed);
    else if ("leave" in step) {
      // What the hub has sent before has arrived; the connection breaks without a word.
      await this.hub.idle();
      this.client(step.leave).socket.cut();
      this.clients.delete(step.leave);
    } else if (step.hub === "drain") await this.hub.stop();
    else this.hub.revoke(step.hub.revoke);
  }

  /** At the end nobody has got more than the fixture says. */
  async end(): Promise<void> {
    for (const name of this.clients.keys()) await this.silent(name);
  }

  private client(name: string): Client {
    const client = this.clients.get(name);
    if (!client) throw new Error(`${name} has left`);
    return client;
  }

  /** As many frames as there are patterns, in whichever order fits. */
  private async expect(to: string, patterns: Json[]): Promise<void> {
    while (patterns.length > 0) {
      const frame = await this.next(to);
      const tried = patterns.map((pattern) => this.bound.difference(pattern, frame));
      const at = tried.indexOf(undefined);
      if (at < 0) {
        throw new Error(`${tried.join("\n")}\nexpected by ${to}: ${JSON.stringify(patterns)}\ncame: ${JSON.stringify(frame)}`);
      }
      patterns.splice(at, 1);
    }
  }

  /** Nothing waits for this connection: a request that no hub has is answered next. */
  private async silent(name: string): Promise<void> {
    this.probes += 1;
    const corr = `probe-${this.probes}`;
    this.client(name).send({ op: "PROBE", corr });
    const frame = await this.next(name);
    if ((frame as { corr?: Json }).corr !== corr) {
      throw new Error(`nothing was expected by ${name}, came: ${JSON.stringify(frame)}`);
    }
  }

  private async closed(to: string, code: number): Promise<void> {
    const client = this.client(to);
    await this.waitFor(() => client.closed !== undefined);
    this.clients.delete(to);
    if (client.closed !== code) throw new Error(`a close with ${code} was expected, ${String(client.closed)} came`);
  }

  private async next(name: string): Promise<Json> {
    const client = this.client(name);
    await this.waitFor(() => client.frames.length > 0 || client.closed !== undefined);
    const frame = client.frames.shift();
    if (frame === undefined) throw new Error(`a frame was expected by ${name}, which has code ${String(client.closed)}`);
    return JSON.parse(frame) as Json;
  }

  /** Moves the clock to what is due next until something has come. */
  private async waitFor(hasCome: () => boolean): Promise<void> {
    const end = this.hub.now + PATIENCE_MS;
    await this.hub.idle();
    for (let due = this.hub.nextDue; !hasCome(); due = this.hub.nextDue) {
      if (due === undefined || due > end) return;
      await this.hub.advance(Math.max(due - this.hub.now, 0));
    }
  }
}

function optionsOf({ hub = {} }: Fixture): MemoryHubOptions {
  const limits = {
    payloadBytes: hub.payload_bytes,
    frameBytes: hub.frame_bytes,
    batchEvents: hub.batch_events,
    subscriptions: hub.subscriptions,
    connectionRate: hub.connection_rate,
    subjectTopics: hub.subject_topics,
    subjectGroups: hub.subject_groups,
    authTimeoutMs: hub.auth_timeout_ms,
    expiryGraceMs: hub.expiry_grace_ms,
    reconnectGraceMs: hub.reconnect_grace_ms,
    clockToleranceMs: hub.clock_tolerance_s === undefined ? undefined : 1000 * hub.clock_tolerance_s,
  };
  return { limits: Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)) };
}

function tokenOf(hub: MemoryHub, token: FixtureToken): string {
  const { ttl_s: ttlSeconds, without_exp: withoutExp, forged, ...rest } = token;
  const claims: TokenClaims = {
    ...rest,
    ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
    ...(withoutExp === undefined ? {} : { withoutExp }),
  };
  return forged === true ? mintToken("another secret than the hub's", claims, hub.now) : hub.token(claims);
}

function expOf(token: string): number {
  const claims = JSON.parse(atob((token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/"))) as { exp?: number };
  return claims.exp ?? 0;
}
