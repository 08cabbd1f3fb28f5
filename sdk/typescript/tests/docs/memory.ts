// Loaded before a program of the pages: whatever it connects to is a hub in memory.

import { MemoryHub } from "../../src/testing/index.ts";

const hub = new MemoryHub({ durable: "fsync" });
process.env["TOKEN"] = hub.token();
// A function that returns an object can be called with `new`.
Object.assign(globalThis, {
  WebSocket: function (url: string) {
    return hub.webSocket(url);
  },
});
