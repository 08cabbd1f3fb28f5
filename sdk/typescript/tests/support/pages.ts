import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename } from "node:path";
import type { TestContext } from "node:test";
import { build, type Plugin } from "esbuild";
import type { BrowserContext, Page } from "playwright-core";
import { bundleForPages } from "../../tools/bundle.mjs";
import { HOME } from "./package.ts";

const PAGE = `<!doctype html><title>event-hub</title><link rel="icon" href="data:,"><script type="module" src="/lab.js"></script>`;

/** What a test brings is bundled apart from the client, so that pages load the client's own files. */
const CLIENT_APART: Plugin = {
  name: "client apart",
  setup(bundler) {
    bundler.onResolve({ filter: /\/src\/index\.ts$/ }, () => ({ path: "/client/index.js", external: true }));
  },
};

/** The files of the server by their paths: the client with its chunks, and what the tests have in their pages. */
async function files(): Promise<Map<string, string>> {
  const served = new Map<string, string>();
  for (const file of (await bundleForPages()).outputFiles) served.set(`/client/${basename(file.path)}`, file.text);
  const lab = await build({
    absWorkingDir: HOME,
    entryPoints: ["tests/browser/page/lab.ts"],
    bundle: true,
    format: "esm",
    target: "es2022",
    sourcemap: "inline",
    plugins: [CLIENT_APART],
    outdir: "dist",
    write: false,
  });
  for (const file of lab.outputFiles) served.set(`/${basename(file.path)}`, file.text);
  return served;
}

/** Serves pages that have `lab`, on a free port. Returns the address of the server, without a slash at its end. */
export async function servePages(t: TestContext): Promise<string> {
  const served = await files();
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://127.0.0.1");
    const script = served.get(pathname);
    if (script !== undefined) response.setHeader("content-type", "text/javascript; charset=utf-8").end(script);
    else if (pathname.endsWith(".js")) response.writeHead(404).end();
    else response.setHeader("content-type", "text/html; charset=utf-8").end(PAGE);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Opens a page that has `lab`. The test fails if the page throws something that nothing catches. */
export async function openPage(t: TestContext, context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  const thrown: Error[] = [];
  page.on("pageerror", (error) => thrown.push(error));
  t.after(() => {
    if (thrown[0] !== undefined) throw thrown[0];
  });
  await page.goto(url);
  return page;
}
