import type { Clock } from "../clock.ts";
import type { Link } from "../connection/link.ts";
import { HubError } from "../errors.ts";
import { type Answer, type PublishResult, refusalOf } from "../frames.ts";
import type { Platform } from "../platform.ts";
import type { Receipt } from "../types.ts";
import type { Entry } from "./entry.ts";

const BATCH_EVENTS = 256;
const BATCH_CHARS = 256 << 10;
/** The batch that goes out with AUTH. */
const EARLY_BATCH_CHARS = 8 << 10;
/** What may be on its way without an answer. */
const WINDOW_EVENTS = 4096;
const WINDOW_CHARS = 4 << 20;
/** How long to wait after `unavailable`: doubled each time, up to the longest. */
const FIRST_RETRY = 50;
const LONGEST_RETRY = 5_000;

const encoder = new TextEncoder();

/** Sends entries, in batches if there are several, and sends them again until the hub has decided on them. */
export interface Sender {
  add(entry: Entry): void;
  /** Forgets an entry that waits to be sent. */
  remove(entry: Entry): void;
  flush(): void;
  tooLarge(): void;
}

/** A PUBLISH: in the making first, then on its way. */
interface Batch {
  readonly entries: Entry[];
  /** Of its events, with braces around each but the first and the last. */
  text: string;
  chars: number;
  /** Refused as a whole from the first event on that is refused, so that nothing overtakes it. */
  readonly isOrdered: boolean;
}

/** The entries of one topic and key under `order: "key"`. */
interface Chain {
  /** Has the first of them. */
  readonly batch: Batch;
  /** Come after it was answered. */
  readonly behind: Entry[];
}

export function createSender(platform: Platform, clock: Clock, link: Link): Sender {
  /** What is to be sent, by number, from `head` on. */
  let queue: Entry[] = [];
  let head = 0;
  const onTheWay = new Set<Batch>();
  const chains = new Map<string, Chain>();
  let sentEvents = 0;
  let sentChars = 0;
  let batchEvents = BATCH_EVENTS;
  let batchChars = BATCH_CHARS;
  let notBefore = 0;
  let retries = 0;
  let isFlushing = false;
  const retry = clock.alarm(flush);

  function flushSoon(): void {
    if (isFlushing || head === queue.length) return;
    isFlushing = true;
    platform.defer(() => {
      isFlushing = false;
      flush();
    });
  }

  function flush(): void {
    if (head === queue.length || !link.canSend(0)) return;
    if (notBefore > 0) {
      if (clock.now() < notBefore) return retry.set(notBefore);
      notBefore = 0;
    }
    // Before the token is accepted there is one batch, and a small one.
    const isEarly = link.state.is !== "ready";
    const mostChars = isEarly ? EARLY_BATCH_CHARS : batchChars;
    const batches = new Map<string, Batch>();
    for (; head < queue.length; head++) {
      const entry = queue[head] as Entry;
      if (entry.isSettled) continue;
      const length = entry.text.length;
      if (sentEvents > 0 && (sentEvents >= WINDOW_EVENTS || sentChars + length > WINDOW_CHARS)) break;
      const name = entry.chain === undefined ? "" : entry.topic;
      let batch = batches.get(name);
      const isFull = batch !== undefined && (batch.entries.length >= batchEvents || batch.chars + length > mostChars);
      if (isEarly && (isFull || length > mostChars || entry.isAlone || entry.chain !== undefined)) break;
      if (batch !== undefined && isFull) {
        batches.delete(name);
        send(batch);
        batch = undefined;
      }
      const isOrdered = entry.chain !== undefined;
      if (entry.chain !== undefined) {
        const chain = chains.get(entry.chain);
        if (chain !== undefined && (chain.batch !== batch || !link.has("ordered") || entry.isAlone)) {
          chain.behind.push(entry);
          continue;
        }
      }
      const into = batch !== undefined && !entry.isAlone ? batch : { entries: [], text: "", chars: 0, isOrdered };
      if (entry.chain !== undefined && !chains.has(entry.chain)) chains.set(entry.chain, { batch: into, behind: [] });
      into.text += into.entries.length === 0 ? entry.text : `},{${entry.text}`;
      into.entries.push(entry);
      into.chars += length;
      sentEvents++;
      sentChars += length;
      if (entry.isAlone) send(into);
      else batches.set(name, into);
    }
    if (head === queue.length) {
      queue = [];
      head = 0;
    }
    for (const batch of batches.values()) send(batch);
  }

  function send(batch: Batch): void {
    onTheWay.add(batch);
    const { text, entries, isOrdered } = batch;
    // It is sent once.
    batch.text = "";
    const ordered = isOrdered && link.has("ordered") ? '"ordered":true,' : "";
    const fields = entries.length === 1 ? text : `${ordered}"events":[{${text}}]`;
    link.ask(`"op":"PUBLISH",${fields}`, (answer) => answered(batch, answer));
  }

  function answered(batch: Batch, answer: Answer | undefined): void {
    const { entries } = batch;
    onTheWay.delete(batch);
    sentEvents -= entries.length;
    sentChars -= batch.chars;
    let again: Entry[] = [];
    if (answer === undefined) {
      again = entries;
    } else if (answer.code !== undefined && entries.length > 1) {
      refusedWhole(entries, answer);
      again = entries;
    } else {
      again = judge(batch, answer.results ?? [answer]);
    }
    if (batch.isOrdered) {
      for (const { chain: name = "" } of entries) {
        const chain = chains.get(name);
        if (chain?.batch !== batch) continue;
        chains.delete(name);
        again = again.concat(chain.behind);
      }
    }
    requeue(again);
    flushSoon();
  }

  /** Settles what the hub has decided on; returns the rest. */
  function judge(batch: Batch, results: readonly PublishResult[]): Entry[] {
    let isBehindRefused = false;
    const again = batch.entries.filter((entry, index) => {
      const result = results[index] ?? { code: "internal", msg: "the hub's answer has too few results" };
      if (result.code === undefined) {
        entry.settle(receiptOf(result));
        return false;
      }
      const error = refusalOf(result) as HubError;
      const isAgain = isBehindRefused && error.code === "unavailable" ? true : isPassing(error);
      isBehindRefused ||= batch.isOrdered;
      if (!isAgain) entry.settle(new HubError(error.code, error.message.slice(error.code.length + 2), { id: entry.id }));
      return isAgain;
    });
    if (again.length === 0) {
      retries = 0;
      batchEvents = Math.min(batchEvents + 1, BATCH_EVENTS);
    }
    return again;
  }

  /** A batch was not carried out at all. What is wrong with one of its events is found out one by one. */
  function refusedWhole(entries: readonly Entry[], answer: Answer): void {
    const error = refusalOf(answer);
    if (error === undefined) return;
    if (!isPassing(error)) for (const entry of entries) entry.isAlone = true;
    // Perhaps it does not fit what the rate allows, or what this hub takes in one batch.
    if (/^(rate_limited|too_large)$/.test(error.code)) batchEvents = Math.max(entries.length >> 1, 1);
  }

  /** Whether the same event may be taken later. Then nothing is sent before that. */
  function isPassing(error: HubError): boolean {
    const now = clock.now();
    switch (error.code) {
      case "rate_limited":
        notBefore = Math.max(notBefore, now + (error.retryAfterMs ?? FIRST_RETRY));
        return true;
      case "unavailable":
      case "token_expired":
      case "unauthorized":
        notBefore = Math.max(notBefore, now + Math.min(FIRST_RETRY * 2 ** retries, LONGEST_RETRY) * (0.5 + platform.random() / 2));
        retries = Math.min(retries + 1, 10);
        return true;
      default:
        return false;
    }
  }

  function requeue(answered: readonly Entry[]): void {
    const entries = answered.filter((entry) => !entry.isSettled);
    if (entries.length === 0) return;
    const rest = queue.slice(head);
    const first = rest[0]?.number ?? Infinity;
    queue = [...entries, ...rest];
    head = 0;
    if (entries.some(({ number }, index) => number > Math.min(first, entries[index + 1]?.number ?? Infinity))) {
      queue.sort((a, b) => a.number - b.number);
    }
  }

  return {
    add(entry) {
      queue.push(entry);
      flushSoon();
    },
    remove(entry) {
      // The queue is sorted by number.
      let from = head;
      for (let to = queue.length; from < to; ) {
        const middle = (from + to) >> 1;
        if ((queue[middle] as Entry).number < entry.number) from = middle + 1;
        else to = middle;
      }
      if (queue[from] === entry) queue.splice(from, 1);
    },
    flush,
    tooLarge() {
      let largest: Batch | undefined;
      let bytes = 0;
      for (const batch of onTheWay) {
        // The hub counts bytes.
        const size = batch.entries.reduce((sum, { text }) => sum + encoder.encode(text).length, 0);
        if (size > bytes) [largest, bytes] = [batch, size];
      }
      const [first, second] = largest?.entries ?? [];
      if (largest === undefined || first === undefined) return;
      if (second === undefined) {
        first.settle(new HubError("too_large", `the hub does not read a frame of ${bytes} bytes`, { id: first.id }));
        return;
      }
      for (const entry of largest.entries) entry.isAlone = true;
      batchChars = Math.max(largest.chars >> 1, EARLY_BATCH_CHARS);
    },
  };
}

function receiptOf(result: PublishResult): Receipt {
  const { id = "", seq = 0, ts = 0, durable = "memory", duplicate } = result;
  return duplicate === true ? { id, seq, ts, durable, duplicate } : { id, seq, ts, durable };
}
