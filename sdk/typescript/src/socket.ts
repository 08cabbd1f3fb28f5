/**
 * What the client needs of a WebSocket. The global `WebSocket` of browsers, workers, Deno and Bun fits, and so does the class of the
 * package `ws`. The option `webSocket` takes a function that returns one.
 *
 * The client adds its listeners in the turn in which it got the socket, one of each kind, and removes none: it ignores what a socket
 * says after the client has closed it. `send` is called between `open` and `close` only.
 */
export interface WebSocketLike {
  /** Sends a text frame. What is thrown counts as a broken connection. */
  send(data: string): void;
  /** Begins the closing handshake. May be called at any time, also twice. */
  close(code?: number, reason?: string): void;
  addEventListener(type: "open", listener: () => void): void;
  /** `data` is a string; a frame of another type is ignored. */
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  /** An `error` is followed by a `close`, or stands for one. */
  addEventListener(type: "error", listener: (event: object) => void): void;
  addEventListener(type: "close", listener: (event: { readonly code: number; readonly reason: string }) => void): void;
}

/** Opens a socket to an address. */
export type OpenSocket = (url: string) => WebSocketLike;
