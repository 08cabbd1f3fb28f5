// A real hub on free ports, with a directory of its own, ended when the test is.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Socket } from "./socket.ts";

const run = promisify(execFile);

/** Variables of the machine that would change what the hub does. */
const FOREIGN = /^(EVENT_HUB_(DATA|CONFIG|URL|OPS_URL|TOKEN)|JWT_.*|WS_.*|OPS_PORT|BIND|MONGO_URL|OUTBOX_URL|ADVERTISE|CLUSTER_SECRET|RUST_LOG|TLS)$/;

export type Received = Readonly<{ id: string; seq: number }>;
export type EventOptions = Readonly<{ id?: string; key?: string; headers?: Record<string, string>; tags?: readonly string[]; sid?: string; ts?: number }>;

function program(): string {
  const path = process.env["EVENT_HUB_PROGRAM"];
  if (path === undefined) throw new Error("EVENT_HUB_PROGRAM is not set; `cargo xtask dashboard` builds the hub and sets it");
  return path;
}

function environment(added: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !FOREIGN.test(name));
  return { ...Object.fromEntries(kept), ...added };
}

/** Ends the hub when this process does, however it ends: then the shell's input is at its end. */
function guard(child: ChildProcess): void {
  const shell = spawn("sh", ["-c", "cat > /dev/null; kill -9 $0", String(child.pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  child.once("exit", () => {
    if (shell.pid !== undefined) process.kill(-shell.pid, "SIGKILL");
  });
}

export class Hub {
  readonly dir: string;
  /** The address of the HTTP port, without a slash at its end. */
  http = "";
  ws = "";
  /** May do everything. */
  token = "";
  #child: ChildProcess | undefined;
  #log: string[] = [];
  #ports: readonly [string, string] = ["0", "0"];
  readonly #variables: Readonly<Record<string, string>>;
  readonly #sockets: Socket[] = [];

  private constructor(dir: string, variables: Readonly<Record<string, string>>) {
    this.dir = dir;
    this.#variables = variables;
  }

  /** Starts one on free ports. `config` is the text of its configuration file. */
  static async start({ config = "", variables = {}, dir }: { config?: string; variables?: Record<string, string>; dir?: string } = {}): Promise<Hub> {
    const hub = new Hub(dir ?? (await Hub.directory()), variables);
    await writeFile(join(hub.dir, "hub.toml"), config);
    await hub.begin();
    return hub;
  }

  /** A directory for a hub that needs something in it before it starts. */
  static directory(): Promise<string> {
    return mkdtemp(join(tmpdir(), "event-hub-browser-"));
  }

  /** Starts the process; after `kill` on the same data and ports. */
  async begin(): Promise<void> {
    const [ws, ops] = this.#ports;
    const words = ["serve", "--json", "--ws-port", ws, "--ops-port", ops, "--data", join(this.dir, "data"), "--config", join(this.dir, "hub.toml")];
    const child = spawn(program(), words, { cwd: this.dir, env: environment(this.#variables), stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    guard(child);
    createInterface({ input: child.stderr }).on("line", (line) => this.#log.push(line));
    const ended = once(child, "exit").then(() => {
      throw new Error(`the hub did not start:\n${this.log()}`);
    });
    const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), "line"), ended])) as [string];
    ended.catch(() => undefined);
    const ready = JSON.parse(line) as { http: string; ws: string; token: string };
    this.http = ready.http.replace(/\/$/, "");
    this.ws = ready.ws;
    this.token = ready.token;
    this.#ports = [new URL(ready.ws).port, new URL(ready.http).port];
  }

  /** The process that runs now. */
  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("the hub does not run");
    return pid;
  }

  /** Ends it as a crash would. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  /** Ends it for good; nothing of it is left. */
  async end(): Promise<void> {
    for (const socket of this.#sockets) socket.close();
    await this.kill();
    await rm(this.dir, { recursive: true, force: true });
  }

  /** The last lines of its log. */
  log(lines = 20): string {
    return this.#log.slice(-lines).join("\n");
  }

  /** Runs a command of the program, as a person would in a terminal. */
  async cli(...words: string[]): Promise<string> {
    const variables = { EVENT_HUB_OPS_URL: this.http, EVENT_HUB_URL: this.ws, EVENT_HUB_TOKEN: this.token };
    const { stdout } = await run(program(), words, { cwd: this.dir, env: environment({ ...this.#variables, ...variables }) });
    return stdout.trim();
  }

  /** A token with these scopes alone. */
  mint(scopes: readonly string[], { sub = "viewer", ttl = "1h" } = {}): Promise<string> {
    return this.cli("token", "--data", join(this.dir, "data"), "--sub", sub, "--ttl", ttl, ...scopes.flatMap((scope) => ["--scope", scope]));
  }

  /** A request with a token that may do everything, unless another one is given. */
  async ask(path: string, init: RequestInit = {}, token = this.token): Promise<Response> {
    return fetch(`${this.http}${path}`, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });
  }

  async json<T>(path: string, init: RequestInit = {}): Promise<T> {
    const answer = await this.ask(path, init);
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`);
    return JSON.parse(text) as T;
  }

  /** Publishes a payload, which is JSON text: its numbers stay as they are written. */
  async publish(topic: string, payload: string, key?: string): Promise<Received> {
    const query = key === undefined ? "" : `?key=${encodeURIComponent(key)}`;
    return this.json(`/publish/${topic}${query}`, { method: "POST", body: payload });
  }

  /** A connection to the gateway. */
  async socket(token = this.token): Promise<Socket> {
    const socket = await Socket.connect(this.ws, token);
    this.#sockets.push(socket);
    return socket;
  }
}
