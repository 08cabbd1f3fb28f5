import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A hub on free ports with a directory of its own. */
export async function startHub(): Promise<{ url: string; token: string; stop: () => Promise<void> }> {
  const program = process.env["EVENT_HUB_BIN"];
  if (program === undefined) throw new Error("set EVENT_HUB_BIN to a built event-hub");
  const directory = await mkdtemp(join(tmpdir(), "event-hub-bench-"));
  const words = ["serve", "--json", "--ws-port", "0", "--ops-port", "0", "--data", join(directory, "data")];
  const hub = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"], env: { PATH: process.env["PATH"], RUST_LOG: "warn" } });
  const line = await new Promise<string>((resolve, reject) => {
    let text = "";
    hub.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      if (text.includes("\n")) resolve(text);
    });
    hub.once("exit", (code) => reject(new Error(`the hub did not start: ${code}`)));
  });
  const { ws, token } = JSON.parse(line) as { ws: string; token: string };
  const stop = async (): Promise<void> => {
    const exited = new Promise((resolve) => hub.once("exit", resolve));
    hub.kill("SIGKILL");
    await exited;
    await rm(directory, { recursive: true, force: true });
  };
  return { url: ws, token, stop };
}
