// The runtimes that the package has conditions for. Those beside Node come as packages of npm.

import { execFile, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { HOME } from "./package.ts";
import { endWithThisProcess } from "./process.ts";

const TIMEOUT_MS = 240_000;

/** What a program may do where the runtime asks: Deno refuses everything else. An empty list allows all of its kind. */
export interface Permissions {
  /** Hosts, or hosts and ports. */
  readonly net?: readonly string[];
  /** Variables of the environment. */
  readonly env?: readonly string[];
  /** Facts about the machine. */
  readonly sys?: readonly string[];
  /** Paths. */
  readonly read?: readonly string[];
}

export interface Runtime {
  readonly name: "Node" | "Deno" | "Bun";
  /** The path of its program. */
  readonly program: string;
  /** The arguments that run a file, which follows. */
  words(permissions: Permissions): string[];
}

/** npm installs the package of each runtime that fits the machine's system, processor and C library. */
function programOf(scope: string, path: string): string {
  const [found] = readdirSync(join(HOME, "node_modules", scope));
  if (found === undefined) throw new Error(`no package of ${scope} fits this machine`);
  return join(HOME, "node_modules", scope, found, path);
}

export const DENO: Runtime = {
  name: "Deno",
  program: programOf("@deno", "deno"),
  words(permissions) {
    const allowed = Object.entries(permissions as Record<string, readonly string[]>);
    const flags = allowed.map(([what, names]) => (names.length === 0 ? `--allow-${what}` : `--allow-${what}=${names.join(",")}`));
    return ["run", "--no-prompt", "--cached-only", ...flags];
  },
};

export const BUN: Runtime = {
  name: "Bun",
  program: programOf("@oven", "bin/bun"),
  words: () => ["--no-install", "run"],
};

export const NODE: Runtime = {
  name: "Node",
  program: process.execPath,
  words: () => [],
};

/** Those that are not Node. */
export const RUNTIMES: readonly Runtime[] = [DENO, BUN];

/** The environment without anything of the person who runs the tests: what a runtime keeps goes into the project. */
function environment(directory: string): NodeJS.ProcessEnv {
  const own = { HOME: directory, DENO_DIR: join(directory, ".deno"), DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1", NO_COLOR: "1" };
  return { PATH: process.env["PATH"], ...own };
}

/** Runs a runtime to its end; what it prints, or an error with all of it. */
export async function execute({ name, program }: Runtime, words: readonly string[], directory: string): Promise<string> {
  try {
    const { stdout, stderr } = await promisify(execFile)(program, words, { cwd: directory, env: environment(directory), timeout: TIMEOUT_MS });
    return stdout + stderr;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${name} ${words.join(" ")} failed:\n${stdout}${stderr}`, { cause: error });
  }
}

export interface Run {
  readonly directory: string;
  readonly file: string;
  readonly permissions: Permissions;
  readonly env: Readonly<Record<string, string>>;
  /** Called for each line that the program prints; `interrupt` does what Ctrl-C does. */
  readonly onLine: (line: string, interrupt: () => void) => void;
}

/** Runs a program until it ends by itself. Throws, with all that it printed, if it fails or prints an error. */
export async function run(runtime: Runtime, { directory, file, permissions, env, onLine }: Run): Promise<void> {
  const child = spawn(runtime.program, [...runtime.words(permissions), file], {
    cwd: directory,
    env: { ...environment(directory), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  endWithThisProcess(child);
  let output = "";
  let errors = "";
  let read = 0;
  let isInterrupted = false;
  const interrupt = (): void => {
    isInterrupted = true;
    child.kill("SIGINT");
  };
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    for (let end = output.indexOf("\n", read); end >= 0; end = output.indexOf("\n", read)) {
      onLine(output.slice(read, end), interrupt);
      read = end + 1;
    }
  });
  const end = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(code ?? signal));
  });
  if ((end !== 0 && !(isInterrupted && end === "SIGINT")) || errors !== "") throw new Error(`${runtime.name} ended with ${String(end)}:\n${output}${errors}`);
}
