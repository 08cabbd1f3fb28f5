// The process of a consumer, as its test sees it.

import { type ChildProcess, spawn } from "node:child_process";
import type { TestContext } from "node:test";
import { Condition } from "../condition.ts";
import { HOME } from "../package.ts";
import { endWithThisProcess } from "../process.ts";
import type { Step } from "./bases.ts";
import type { ConsumerOptions, Told } from "./consumer.ts";

export class ConsumerProcess {
  readonly #child: ChildProcess;
  readonly #changed = new Condition();
  readonly #told: Told[] = [];
  #errors = "";

  constructor(t: TestContext, options: ConsumerOptions) {
    const words = ["--import", "./tools/typescript.mjs", "tests/support/inbox/consumer.ts", JSON.stringify(options)];
    this.#child = spawn(process.execPath, words, { cwd: HOME, stdio: ["pipe", "pipe", "pipe"] });
    endWithThisProcess(this.#child);
    t.after(() => this.kill());
    let text = "";
    this.#child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (text + chunk).split("\n");
      text = lines.pop() ?? "";
      this.#told.push(...lines.map((line) => JSON.parse(line) as Told));
      this.#changed.changed();
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (chunk: string) => (this.#errors += chunk));
    this.#child.once("exit", () => this.#changed.changed());
    this.#child.stdin?.on("error", () => undefined);
  }

  /** The ids of events of which it has told this, as often as it has. */
  ids(what: "delivered" | "run" | "done"): string[] {
    return this.#told.flatMap((told) => (told.is === what ? [told.id] : []));
  }

  get logged(): string[] {
    return this.#told.flatMap((told) => (told.is === "log" ? [told.message] : []));
  }

  /** For the error of a test. */
  get lastWords(): string {
    const ended = this.#hasEnded ? `the consumer has ended (${this.#child.exitCode ?? this.#child.signalCode}): ${this.#errors}; ` : "";
    return `${ended}the last that it has told: ${JSON.stringify(this.#told.slice(-30))}`;
  }

  ready(): Promise<void> {
    return this.until(() => this.#told.some(({ is }) => is === "ready"));
  }

  stoppedAt(step: Step): Promise<void> {
    return this.until(() => this.#told.some((told) => told.is === "stopped" && told.at === step));
  }

  /** Waits for something that it tells. */
  async until(isTrue: () => boolean): Promise<void> {
    await this.#changed.until(() => isTrue() || this.#hasEnded).catch((error: unknown) => {
      throw new Error(`${isTrue.toString()}; ${this.lastWords}`, { cause: error });
    });
    if (!isTrue()) throw new Error(`the consumer has ended: ${this.#errors}`);
  }

  /** Lets it go on from where it is stopped. */
  go(): void {
    this.#child.stdin?.write("\n");
  }

  async kill(): Promise<void> {
    if (this.#hasEnded) return;
    const exited = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await exited;
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
