import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { type BrowserContext, type CDPSession, chromium, type Page } from "playwright-core";
import { endWithThisProcess } from "./process.ts";

/** The browser under test: `cargo xtask sdk` gets one and sets the variable. */
const PROGRAM = process.env["EVENT_HUB_TEST_CHROMIUM"] ?? "chromium";

const FLAGS = [
  "--headless",
  "--remote-debugging-port=0",
  // Root cannot have one, an unpacked package has none, and the only pages are the test's.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The address at which the browser takes commands. */
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const address = /DevTools listening on (ws:\S+)/.exec(text)?.[1];
      if (address !== undefined) resolve(address);
    });
    child.once("error", (cause) => reject(new Error(`cannot start ${PROGRAM}; set EVENT_HUB_TEST_CHROMIUM to a Chromium`, { cause })));
    child.once("exit", (code) => reject(new Error(`${PROGRAM} did not start (${code}): ${text}`)));
  });
}

/**
 * Starts a browser of the test's own, with a new profile. `chromium.launch` would make every page visible and focused at all times and
 * switch off the back/forward cache; this browser hides, freezes and keeps its pages as one does that a person uses.
 */
export async function startChromium(t: TestContext, ...flags: string[]): Promise<BrowserContext> {
  const profile = await mkdtemp(join(tmpdir(), "event-hub-chromium-"));
  // What it writes elsewhere goes with the profile, too.
  const env = { ...process.env, TMPDIR: profile };
  const child = spawn(PROGRAM, [...FLAGS, ...flags, `--user-data-dir=${profile}`], { stdio: ["ignore", "ignore", "pipe"], env });
  endWithThisProcess(child);
  t.after(async () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    }
    // The processes of its pages end a moment after it does.
    await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  const browser = await chromium.connectOverCDP(await addressOf(child), { noDefaults: true });
  const [context] = browser.contexts();
  if (context === undefined) throw new Error("the browser has no profile");
  return context;
}

/** The browser's own tools for one page. */
export class PageTools {
  readonly #session: CDPSession;

  private constructor(session: CDPSession) {
    this.#session = session;
  }

  static async of(page: Page): Promise<PageTools> {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    return new PageTools(session);
  }

  /** Without a network no connection can be made, and nothing goes over those that are open: it waits for the network. */
  async setOffline(offline: boolean): Promise<void> {
    const unlimited = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
    await this.#session.send("Network.emulateNetworkConditions", { offline, ...unlimited });
  }

  /** Freezes a page as the browser freezes tabs that nobody has looked at for long: nothing of it runs. */
  async setFrozen(frozen: boolean): Promise<void> {
    await this.#session.send("Page.setWebLifecycleState", { state: frozen ? "frozen" : "active" });
  }
}
