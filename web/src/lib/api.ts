// Requests to the hub. Answers are kept as text where payloads are in them.
import { setHubTime } from "./clock.ts";
import { asked, become, token, type WhoAmI } from "./session.ts";

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A refusal, in the hub's words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** When to try again, in milliseconds. */
  readonly retryAfter: number | undefined;

  constructor(status: number, code: string, message: string, retryAfter?: number) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may be answered a little later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }

  static async from(answer: Response): Promise<ApiError> {
    const text = await answer.text().catch(() => "");
    const seconds = Number(answer.headers.get("retry-after") ?? Number.NaN);
    const later = Number.isFinite(seconds) ? seconds * 1_000 : undefined;
    try {
      const { code, error } = JSON.parse(text) as { code: string; error: string };
      return new ApiError(answer.status, code, error, later);
    } catch {
      return new ApiError(answer.status, "unknown", `the hub answered ${answer.status}`, later);
    }
  }
}

export function url(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? path : `${path}?${text}`;
}

/** Sends a request with the token. A token that the hub does not take is asked for again; the page stays. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const held = token.peek();
  if (held === undefined) throw new ApiError(401, "no_token", "there is no token");
  try {
    return await request(path, held, init);
  } catch (error) {
    // An answer to a token that was replaced meanwhile says nothing about the new one.
    if (error instanceof ApiError && error.status === 401 && token.peek() === held) asked.value = error.message;
    throw error;
  }
}

async function request(path: string, held: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${held}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers, credentials: "omit", redirect: "error" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "the hub does not answer");
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (!Number.isNaN(date)) setHubTime(date);
  if (answer.ok) return answer;
  throw await ApiError.from(answer);
}

export async function getText(path: string, query: Query = {}, signal?: AbortSignal): Promise<string> {
  return (await send(url(path, query), signal === undefined ? {} : { signal })).text();
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return JSON.parse(await getText(path, query, signal)) as T;
}

/** Sends a JSON text, or a value. */
export async function post<T>(path: string, body: string | object, query: Query = {}): Promise<T> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const answer = await send(url(path, query), { method: "POST", body: text, headers: { "content-type": "application/json" } });
  return (await answer.json()) as T;
}

export async function remove<T>(path: string, query: Query = {}): Promise<T> {
  return (await (await send(url(path, query), { method: "DELETE" })).json()) as T;
}

/** How often a page is asked for again that comes too soon after the one before. */
const LATER = 20;

/** The answer to a request. While the hub says that requests come too fast, it is asked again when the hub says. */
async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || tries >= LATER || signal.aborted) throw error;
      const wait = error.retryAfter ?? 1_000;
      await new Promise((done) => setTimeout(done, wait));
      signal.throwIfAborted();
    }
  }
}

/** All pages of a list, handed over as they come, until `take` says that it has enough. */
export async function pages<P extends { next?: string | number }>(
  path: string,
  query: Query,
  signal: AbortSignal,
  take: (page: P) => boolean | void,
): Promise<void> {
  let after: string | number | undefined;
  for (;;) {
    const page: P = await patiently(() => get<P>(path, { ...query, after }, signal), signal);
    if (take(page) === true || page.next === undefined) return;
    after = page.next;
    // Room for input between two pages.
    await new Promise((done) => setTimeout(done));
  }
}

/** What a token may do. */
export async function whoIs(held: string): Promise<WhoAmI> {
  return (await (await request("/whoami", held, {})).json()) as WhoAmI;
}

/** Reads the subject and the rights of the token in use. */
export async function identify(): Promise<void> {
  const held = token.peek();
  const me = await get<WhoAmI>("/whoami");
  if (token.peek() === held) become(me);
}
