// Database servers of a test's own, which it kills and starts again. Their programs are those of the servers that `cargo xtask sdk` starts.

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, chmodSync, existsSync, mkdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { MongoClient } from "mongodb";
import pg from "pg";
import { poll } from "./condition.ts";
import { endWithThisProcess } from "./process.ts";

/** A program that runs on this machine, and as whom it runs. */
interface Program {
  readonly path: string;
  readonly env: NodeJS.ProcessEnv;
  readonly uid: number;
  readonly gid: number;
}

export type ServerKind = "postgres" | "mongodb";

const VARIABLES = { postgres: "EVENT_HUB_TEST_POSTGRES", mongodb: "EVENT_HUB_TEST_MONGO" };

/** Why tests with such a server cannot run; false if they can. */
export function whyNoServer(kind: ServerKind): string | false {
  if (process.env[VARIABLES[kind]] === undefined) return `${VARIABLES[kind]} is not set; \`cargo xtask sdk\` starts a server and sets it`;
  return existsSync("/proc/self/exe") ? false : "this machine has no /proc, which tells where the server's program is";
}

/** A server with data of its own. */
export class DatabaseServer {
  readonly #kind: ServerKind;
  readonly #program: Program;
  readonly #arguments: string[];
  readonly #port: number;
  readonly #set: string;
  #process: ChildProcess | undefined;

  private constructor(kind: ServerKind, program: Program, words: string[], port: number, set: string) {
    this.#kind = kind;
    this.#program = program;
    this.#arguments = words;
    this.#port = port;
    this.#set = set;
  }

  static async start(t: TestContext, kind: ServerKind): Promise<DatabaseServer> {
    const program = await programOf(kind, process.env[VARIABLES[kind]] ?? "");
    const directory = await mkdtemp(join(tmpdir(), `event-hub-${kind}-`));
    const data = join(directory, "data");
    mkdirSync(data);
    // The server may run as another user.
    chmodSync(directory, 0o711);
    chmodSync(data, 0o700);
    chownSync(data, program.uid, program.gid);
    const port = await freePort();
    const set = `set-${port}`;
    if (kind === "postgres") {
      const words = ["--username", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", data];
      execFileSync(join(dirname(program.path), "initdb"), words, { ...options(program), stdio: "ignore" });
    }
    const words = {
      postgres: ["-D", data, "-p", String(port), ...["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=16MB", "dynamic_shared_memory_type=mmap"].flatMap((setting) => ["-c", setting])],
      mongodb: [
        ...["--dbpath", data, "--port", String(port), "--bind_ip", "127.0.0.1", "--replSet", set, "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "512"],
        // The transaction of a process that was killed holds its mark for so long; 60 s unless set.
        ...["diagnosticDataCollectionEnabled=false", "transactionLifetimeLimitSeconds=2"].flatMap((setting) => ["--setParameter", setting]),
      ],
    };
    const server = new DatabaseServer(kind, program, words[kind], port, set);
    t.after(async () => {
      await server.kill();
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    });
    server.#spawn();
    if (kind === "mongodb") await server.#initiate();
    await server.#ready();
    return server;
  }

  /** The address of a database on it. */
  url(database: string): string {
    if (this.#kind === "postgres") return `postgres://postgres@127.0.0.1:${this.#port}/${database}`;
    return `mongodb://127.0.0.1:${this.#port}/${database}?replicaSet=${this.#set}`;
  }

  /** Ends all its processes at once, as a crash does. */
  async kill(): Promise<void> {
    const server = this.#process;
    if (server?.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const exited = new Promise((resolve) => server.once("exit", resolve));
    const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8").split(" ").filter((pid) => pid !== "");
    server.kill("SIGKILL");
    for (const pid of children) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended with its parent.
      }
    }
    await exited;
  }

  /** Starts it with the data that it had, and waits until it can be used. */
  async run(): Promise<void> {
    this.#spawn();
    await this.#ready();
  }

  #spawn(): void {
    const { path } = this.#program;
    this.#process = spawn(path, this.#arguments, { ...options(this.#program), stdio: "ignore" });
    endWithThisProcess(this.#process);
  }

  async #initiate(): Promise<void> {
    const client = new MongoClient(`mongodb://127.0.0.1:${this.#port}/?directConnection=true`, { serverSelectionTimeoutMS: 60_000 });
    try {
      const members = [{ _id: 0, host: `127.0.0.1:${this.#port}` }];
      await client.db("admin").command({ replSetInitiate: { _id: this.#set, members, settings: { electionTimeoutMillis: 2_000 } } });
    } finally {
      await client.close();
    }
  }

  async #ready(): Promise<void> {
    if (this.#kind === "mongodb") {
      const client = new MongoClient(this.url("admin"), { serverSelectionTimeoutMS: 60_000 });
      await client.db().command({ ping: 1 }, { readPreference: "primary" });
      await client.close();
      return;
    }
    await poll("the server takes connections", async () => {
      // Processes of the one that was killed may still be there: then it ends, and is started again.
      if (this.#process?.exitCode !== null) this.#spawn();
      const client = new pg.Client({ connectionString: this.url("postgres") });
      client.on("error", () => undefined);
      try {
        await client.connect();
        return true;
      } catch {
        return false;
      } finally {
        await client.end().catch(() => undefined);
      }
    });
  }
}

function options({ env, uid, gid }: Program): { env: NodeJS.ProcessEnv; cwd: string; uid?: number; gid?: number } {
  return { env, cwd: "/", ...(process.getuid?.() === 0 ? { uid, gid } : {}) };
}

/** The program of a server that runs, by what the system says of its process. */
async function programOf(kind: ServerKind, url: string): Promise<Program> {
  const pid = await (kind === "postgres" ? backendOf(url) : mongodOf(url));
  const path = readlinkSync(`/proc/${pid}/exe`);
  assert.equal(basename(path), kind === "postgres" ? "postgres" : "mongod", `the server of ${VARIABLES[kind]} is not a process of this machine`);
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const [uid, gid] = ["Uid", "Gid"].map((name) => Number(new RegExp(`^${name}:\\t(\\d+)`, "m").exec(status)?.[1])) as [number, number];
  const libraries = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").find((text) => text.startsWith("LD_LIBRARY_PATH="));
  const env = { PATH: process.env["PATH"], ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries.slice("LD_LIBRARY_PATH=".length) }) };
  return { path, env, uid, gid };
}

async function backendOf(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const pid = rows[0]?.pid ?? 0;
  // The one that stays when this connection ends.
  const parent = Number(/^PPid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  await client.end();
  return parent;
}

async function mongodOf(url: string): Promise<number> {
  const client = new MongoClient(url);
  const { pid } = await client.db("admin").command({ serverStatus: 1 });
  await client.close();
  return Number(pid);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
