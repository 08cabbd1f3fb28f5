// A person who looks at the dashboard: a page in a profile of its own, watched for everything that must not happen.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, BrowserContext, CDPSession, Locator, Page, Request } from "playwright-core";
import type { Hub } from "./hub.ts";

export type ViewerOptions = Readonly<{ width?: number; height?: number; theme?: "light" | "dark" }>;

/** Longer than anything takes on a busy machine. */
const PATIENCE_MS = 30_000;

/** Runs in the page before its own code: whatever the policy refuses is told. */
const WATCH = `addEventListener("securitypolicyviolation", (event) => {
  violated("the policy refused " + event.violatedDirective + ": " + (event.blockedURI || event.sample) + " at " + event.sourceFile + ":" + event.lineNumber);
});`;

/** A directory with files of the dashboard to be looked at instead of those in the program, which then need not be built anew. */
const FILES = process.env["EVENT_HUB_DASHBOARD_FILES"];

async function serve(context: BrowserContext, hub: Hub, dir: string): Promise<void> {
  await context.route((url) => url.origin === hub.http && /^\/(app\.js|app\.css|favicon\.svg)?$/.test(url.pathname), async (route) => {
    const answer = await route.fetch().catch(() => undefined);
    if (answer === undefined) return route.abort();
    const { "content-encoding": _, "content-length": __, etag: ___, ...headers } = answer.headers();
    const name = new URL(route.request().url()).pathname.slice(1);
    await route.fulfill({ status: 200, headers, body: await readFile(join(dir, name === "" ? "index.html" : name)) });
  });
}

function isStream(request: Request): boolean {
  return new URL(request.url()).pathname === "/live";
}

export class Viewer {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly hub: Hub;
  /** What the page did that no page may do. */
  readonly violations: string[] = [];
  readonly #pages = new Map<Page, CDPSession>();
  /** Requests that are not answered yet. The stream, which does not end, is answered when it begins: lists are read from then on. */
  readonly #open = new Set<Request>();

  private constructor(context: BrowserContext, page: Page, hub: Hub) {
    this.context = context;
    this.page = page;
    this.hub = hub;
  }

  static async open(browser: Browser, hub: Hub, { width = 1440, height = 900, theme = "light" }: ViewerOptions = {}): Promise<Viewer> {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: "reduce", acceptDownloads: true });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const viewer = new Viewer(context, page, hub);
    await context.exposeFunction("violated", (text: string) => viewer.violations.push(text));
    await context.addInitScript(WATCH);
    if (FILES !== undefined) await serve(context, hub, FILES);
    context.on("request", (request) => viewer.#seen(request));
    context.on("response", (response) => {
      if (isStream(response.request())) viewer.#open.delete(response.request());
    });
    context.on("requestfinished", (request) => viewer.#open.delete(request));
    context.on("requestfailed", (request) => viewer.#open.delete(request));
    context.on("weberror", (error) => viewer.violations.push(`the page threw ${String(error.error().stack)}`));
    context.on("console", (message) => {
      // A refused or unreachable request is an error to the browser, and a case like any other to the page, which shows it.
      if (message.type() !== "error" || message.text().startsWith("Failed to load resource")) return;
      viewer.violations.push(`the console has an error: ${message.text()}`);
    });
    return viewer;
  }

  #seen(request: Request): void {
    const url = new URL(request.url());
    this.#open.add(request);
    if (url.origin === this.hub.http || url.protocol === "blob:" || url.protocol === "data:") return;
    this.violations.push(`a request to another origin: ${request.method()} ${request.url()}`);
  }

  /** Follows the link that the hub prints, and waits for the stream. */
  async logIn(token: string, page = this.page): Promise<void> {
    await page.goto(`${this.hub.http}/#token=${token}`);
    await this.live(page);
  }

  /** Waits until the page says that it is live. */
  async live(page = this.page): Promise<void> {
    await page.locator(".status.live").waitFor();
  }

  /** Has the page read everything again, as after a time in the background. */
  async comeBack(): Promise<void> {
    for (const state of ["hidden", "visible"]) {
      await this.evaluate(`{
        Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
        document.dispatchEvent(new Event("visibilitychange"));
      }`);
    }
    await this.live();
  }

  /** Goes to a screen of the same page, as a link does. */
  async go(screen: string, page = this.page): Promise<void> {
    await this.evaluate(`location.hash = ${JSON.stringify(screen)}`, page);
  }

  /** Waits until the page has drawn the answers to everything it has asked. */
  async settled(page = this.page): Promise<void> {
    const drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))";
    // A stream that is refused is settled, too.
    await page.locator(".status.live, .status.lost").waitFor();
    for (let quiet = 0; quiet < 2; quiet += 1) {
      await this.evaluate(drawn, page);
      if ([...this.#open].some((request) => request.frame().page() === page)) quiet = -1;
    }
  }

  /** Evaluates an expression in the page, whatever its policy says about `eval`. */
  async evaluate<T>(expression: string, page = this.page): Promise<T> {
    const session = await this.session(page);
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true, userGesture: true });
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value as T;
  }

  async session(page = this.page): Promise<CDPSession> {
    const open = this.#pages.get(page) ?? (await this.context.newCDPSession(page));
    this.#pages.set(page, open);
    return open;
  }

  /** One more tab of the same profile. */
  tab(): Promise<Page> {
    return this.context.newPage();
  }

  button(name: string | RegExp): Locator {
    return this.page.getByRole("button", { name });
  }

  dialog(name: string | RegExp): Locator {
    return this.page.getByRole("dialog", { name });
  }

  /** A text anywhere in the page. */
  text(text: string | RegExp): Locator {
    return this.page.getByText(text).first();
  }

  async see(locator: Locator): Promise<void> {
    await locator.first().waitFor();
  }

  async gone(locator: Locator): Promise<void> {
    await locator.first().waitFor({ state: "hidden" });
  }

  /** Waits until the address has these texts. */
  async addressHas(...parts: string[]): Promise<void> {
    await this.page.waitForURL((url) => parts.every((part) => url.hash.includes(part)));
  }

  /** Presses Tab until the element has the focus. */
  async tabTo(target: Locator): Promise<void> {
    await target.waitFor();
    for (let presses = 0; presses < 120; presses += 1) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await this.page.keyboard.press("Tab");
    }
    assert.fail(`the Tab key does not lead to ${String(target)}`);
  }

  async close(): Promise<void> {
    // Requests that a test answers may be under way.
    await this.page.unrouteAll({ behavior: "ignoreErrors" });
    await this.context.close();
  }
}
