// What a test of the dashboard has: a hub, a real Chromium, and pages in it that are watched. A test fails if a page breaks the content security
// policy, throws, logs an error, or asks anybody but its hub.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch } from "./chromium.ts";
import { Hub } from "./hub.ts";
import { Viewer, type ViewerOptions } from "./viewer.ts";

/** Far more than a test takes on a busy machine. */
const TEST_TIMEOUT_MS = 240_000;

let running: Promise<Browser> | undefined;

function browser(): Promise<Browser> {
  running ??= launch();
  return running;
}

export class World {
  readonly hub: Hub;
  readonly #viewers: Viewer[] = [];

  constructor(hub: Hub) {
    this.hub = hub;
  }

  /** A person with a browser of their own, not logged in yet. */
  readonly viewer = async (options: ViewerOptions = {}): Promise<Viewer> => {
    const viewer = await Viewer.open(await browser(), this.hub, options);
    this.#viewers.push(viewer);
    return viewer;
  };

  /** The same, logged in by a link that leads to a screen, such as `/topics?sort=-rate`. */
  readonly open = async (screen = "/", options: ViewerOptions & { token?: string } = {}): Promise<Viewer> => {
    const viewer = await this.viewer(options);
    await viewer.logIn(options.token ?? this.hub.token);
    if (screen !== "/") await viewer.go(screen);
    return viewer;
  };

  get viewers(): readonly Viewer[] {
    return this.#viewers;
  }
}

export type Options = Readonly<{ config?: string; variables?: Record<string, string>; timeout?: number; prepare?: (dir: string) => Promise<void> }>;

/** A test with a hub of its own. What fails leaves a picture of each page. */
export function browserTest(name: string, body: (world: World) => Promise<void>, options: Options = {}): void {
  test(name, { timeout: options.timeout ?? TEST_TIMEOUT_MS }, async () => {
    const dir = await Hub.directory();
    await options.prepare?.(dir);
    const hub = await Hub.start({ ...options, dir });
    const world = new World(hub);
    try {
      await body(world);
      const broken = world.viewers.flatMap((viewer) => viewer.violations);
      assert.deepEqual(broken, [], "the pages broke what holds for every page");
    } catch (error) {
      throw await described(error, name, world);
    } finally {
      for (const viewer of world.viewers) await viewer.close();
      await hub.end();
    }
  });
}

after(async () => {
  await (await running)?.close();
});

/** The error, with what helps to understand it. */
async function described(error: unknown, name: string, world: World): Promise<Error> {
  const pictures: string[] = [];
  for (const [index, viewer] of world.viewers.entries()) {
    const path = await picturePath(`failed/${slug(basename(process.argv[1] ?? "", ".test.ts"))}-${slug(name)}-${index + 1}.png`);
    await viewer.page.screenshot({ path, timeout: 10_000 }).then(() => pictures.push(`${path} of ${viewer.page.url()}`), () => undefined);
    pictures.push(...viewer.violations);
  }
  const whole = error instanceof Error ? error : new Error(String(error));
  const [pages, log] = [pictures.join("\n  "), world.hub.log().replaceAll("\n", "\n  ")];
  // The stack is what Node shows.
  whole.stack = `${whole.stack ?? whole.message}\n\npages:\n  ${pages}\nthe hub's log:\n  ${log}\n`;
  return whole;
}

/** Where a picture goes that is not for the documentation. */
export async function picturePath(name: string): Promise<string> {
  const path = join(process.env["EVENT_HUB_PICTURES"] ?? "node_modules/.browser", name);
  await mkdir(join(path, ".."), { recursive: true });
  return path;
}

export function slug(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}

/** Waits until something holds that no signal tells. */
export async function eventually(what: string, check: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error(`still not so after 60 s: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
