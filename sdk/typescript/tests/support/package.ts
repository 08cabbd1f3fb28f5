import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

export const HOME = fileURLToPath(new URL("../../", import.meta.url));

/** Runs a program; what it prints, or an error with all of it. */
export async function execute(program: string, words: readonly string[], cwd = HOME, env: NodeJS.ProcessEnv = {}): Promise<string> {
  try {
    const { stdout, stderr } = await run(program, words, { cwd, env: { ...process.env, ...env }, maxBuffer: 16 << 20 });
    return stdout + stderr;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${words.join(" ")} failed:\n${stdout}${stderr}`, { cause: error });
  }
}
