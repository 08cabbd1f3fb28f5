import { type ChildProcess, spawn } from "node:child_process";

/** Ends a child when this process does, however it ends, also by the timeout of a test: then the shell's input is at its end. */
export function endWithThisProcess(child: ChildProcess): void {
  // It could not be started.
  if (child.pid === undefined) return;
  const shell = spawn("sh", ["-c", "cat > /dev/null; kill -9 $0", String(child.pid)], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  child.once("exit", () => {
    if (shell.pid !== undefined) process.kill(-shell.pid, "SIGKILL");
  });
}
