// The browser that tests and benchmarks look with.
import { type Browser, chromium } from "playwright-core";

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["EVENT_HUB_TEST_CHROMIUM"] ?? "chromium",
    args: [
      "--headless",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
    // Root cannot have one, an unpacked package has none, and the only pages are the hub's.
    chromiumSandbox: false,
  });
}
