import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { endWithThisProcess } from "./process.ts";

export { Condition } from "./condition.ts";

/** The program under test. */
const PROGRAM = process.env["EVENT_HUB_BIN"];

/** An address of a hub. */
export interface Address {
  readonly url: string;
  /** Cuts the connections, without a word. */
  cut(): void;
  /** False cuts the connections, and refuses new ones until it is true again. */
  set isReachable(isReachable: boolean);
}

/** A port that stays the same while hubs behind it come and go, and whose connections can be cut. */
class Proxy implements Address {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The port of the hub; undefined while no hub runs. Another program may get the port of a hub that has ended. */
  #target: number | undefined;
  /** Connections are refused. */
  #isDown = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<Proxy> {
    const server = createServer();
    const proxy = new Proxy(server);
    server.on("connection", (socket) => proxy.#join(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  #join(near: Socket): void {
    if (this.#target === undefined || this.#isDown) {
      near.destroy();
      return;
    }
    const far = connect(this.#target, "127.0.0.1");
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }

  get target(): number | undefined {
    return this.#target;
  }

  set target(port: number | undefined) {
    this.#target = port;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  set isReachable(isReachable: boolean) {
    this.#isDown = !isReachable;
    if (!isReachable) this.cut();
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  stop(): void {
    this.#server.close();
    this.cut();
  }
}

/** A hub of a test's own: free ports, a directory that goes with it. */
export class Hub {
  readonly #proxy: Proxy;
  readonly #proxies: Proxy[];
  readonly #directory: string;
  readonly #secret = randomBytes(32).toString("hex");
  #process: ChildProcess | undefined;
  #http = "";

  private constructor(proxy: Proxy, directory: string) {
    this.#proxy = proxy;
    this.#proxies = [proxy];
    this.#directory = directory;
  }

  static async start(t: TestContext, config = ""): Promise<Hub> {
    assert.ok(PROGRAM, "EVENT_HUB_BIN is not set; `cargo xtask sdk` does that, or set it to a built event-hub");
    const hub = new Hub(await Proxy.start(), await mkdtemp(join(tmpdir(), "event-hub-sdk-")));
    t.after(() => hub.#remove());
    await writeFile(join(hub.#directory, "hub.toml"), config);
    await hub.run();
    return hub;
  }

  /** Starts the process again, behind the same port. */
  async run(): Promise<void> {
    const words = ["serve", "--json", "--ws-port", "0", "--ops-port", "0", "--data", join(this.#directory, "data")];
    const program = spawn(PROGRAM ?? "", [...words, "--config", join(this.#directory, "hub.toml")], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], RUST_LOG: "warn", JWT_SECRET: this.#secret, JWT_CLOCK_TOLERANCE_SEC: "0" },
    });
    this.#process = program;
    endWithThisProcess(program);
    let errors = "";
    program.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    const line = await new Promise<string>((resolve, reject) => {
      let text = "";
      program.stdout.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.includes("\n")) resolve(text);
      });
      program.once("exit", (code) => reject(new Error(`the hub did not start (${code}): ${errors}`)));
    });
    const { ws, http } = JSON.parse(line) as { ws: string; http: string };
    this.#target = Number(new URL(ws).port);
    this.#http = http;
  }

  get url(): string {
    return this.#proxy.url;
  }

  /** Another address of the hub, with connections of its own to cut. */
  async address(): Promise<Address> {
    const proxy = await Proxy.start();
    proxy.target = this.#proxy.target;
    this.#proxies.push(proxy);
    return proxy;
  }

  set #target(port: number | undefined) {
    for (const proxy of this.#proxies) proxy.target = port;
  }

  /** The address of the HTTP API, another one after each start. */
  get http(): string {
    return this.#http;
  }

  /** A token, made here: for `ttl` seconds. */
  token(claims: { sub?: string; scopes?: string[]; ttl?: number } = {}): string {
    const { sub = "test", scopes = ["publish:**", "subscribe:**", "admin:**"], ttl = 3600 } = claims;
    const now = Math.floor(Date.now() / 1000);
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const text = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub, scopes, iat: now, exp: now + ttl })}`;
    return `${text}.${createHmac("sha256", this.#secret).update(text).digest("base64url")}`;
  }

  /** What an HTTP request answers, as JSON. */
  async get(path: string): Promise<unknown> {
    const response = await fetch(new URL(path, this.#http), { headers: { authorization: `Bearer ${this.token()}` } });
    return response.json();
  }

  /** All records of a topic. */
  async log(topic: string): Promise<{ id: string; seq: number; key?: string; payload: unknown }[]> {
    const response = await fetch(new URL(`export?topic=${topic}&ndjson=1`, this.#http), {
      headers: { authorization: `Bearer ${this.token()}` },
    });
    const lines = (await response.text()).split("\n").filter((line) => line !== "");
    return lines.map((line) => JSON.parse(line) as { id: string; seq: number; key?: string; payload: unknown });
  }

  /** Cuts the connections, without a word. */
  cut(): void {
    this.#proxy.cut();
  }

  /** Cuts the connections, and refuses new ones until `isReachable` is true again. */
  set isReachable(isReachable: boolean) {
    this.#proxy.isReachable = isReachable;
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#process?.kill(signal);
  }

  /** Ends the process, and waits for that. */
  async kill(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    const program = this.#process;
    if (program === undefined || program.exitCode !== null || program.signalCode !== null) return;
    const exited = new Promise((resolve) => program.once("exit", resolve));
    // A hub that stops gracefully goes on with the connections that it has.
    this.#target = undefined;
    program.kill(signal);
    await exited;
  }

  async #remove(): Promise<void> {
    this.signal("SIGCONT");
    await this.kill();
    for (const proxy of this.#proxies) proxy.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }
}
