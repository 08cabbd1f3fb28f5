// Made by `event-hub codegen typescript` from the schemas of a hub. Do not edit: run it again.

/** What the payloads of each topic look like. */
export interface Topics {
  "Match": Match;
  "both.of": BothOf;
  /**
   * *\/ export const broken = 1; /*
   * @ ts-expect-error
   * ``` compile me ```
   * *\/ *\/
   * @ ts-ignore
   */
  "hostile.text": HostileText;
  "match": Match2;
  "metrics.web.requests": MetricsWebRequests;
  "never": Never;
  "numbers": Numbers;
  /**
   * Order
   *
   * An order of the shop.
   */
  "orders.created": OrdersCreated;
  "process": ProcessAll;
  "process.web.cpu.load": ProcessAll & ProcessWebCpuLoad;
  "process.web.state": ProcessAll & ProcessAnyState & ProcessWebState;
  "self": Self;
  "tree": Tree;
  [topic: `metrics.${string}`]: MetricsAny | MetricsWebRequests;
  [topic: `process.${string}`]: ProcessAll | (ProcessAll & ProcessAnyState) | (ProcessAll & ProcessWebCpuLoad) | (ProcessAll & ProcessAnyState & ProcessWebState);
  [topic: `process.${string}.state`]: (ProcessAll & ProcessAnyState) | (ProcessAll & ProcessAnyState & ProcessWebState);
}

/** Payloads of `Match`. */
export type Match = unknown;

/** Payloads of `both.of`. */
export type BothOf = {
  "a"?: string;
} & {
  "b": number;
};

/**
 * Payloads of `hostile.text`.
 *
 * *\/ export const broken = 1; /*
 * @ ts-expect-error
 * ``` compile me ```
 * *\/ *\/
 * @ ts-ignore
 */
export interface HostileText {
  /** *\/} */
  "a\"]: any; b: [\""?: string;
  /** *\/ // */
  "new\nline\\\"\u2028"?: "*/" | "\"\\" | "\u2028" | "`${x}`";
}

/** Payloads of `match`. */
export interface Match2 {
  "1st"?: string;
  "Self"?: string;
  "a-b"?: string;
  "aB"?: string;
  "a_b"?: string;
  "crate"?: string;
  "fn"?: string;
  "ü"?: string;
}

/** Payloads of `metrics.*`. */
export type MetricsAny = number;

/** Payloads of `metrics.web.requests`. */
export type MetricsWebRequests = number;

/** Payloads of `never`. */
export type Never = never;

/** Payloads of `numbers`. */
export type Numbers = 1 | 2.5 | number | true | null | "x" | [1] | { "a": 1 };

/**
 * Payloads of `orders.created`.
 *
 * Order
 *
 * An order of the shop.
 */
export interface OrdersCreated {
  "amount"?: string | number | number;
  "anything"?: unknown;
  "count"?: number;
  "customer": OrdersCreatedCustomer;
  "delta"?: number;
  /**
   * Unique.
   *
   * Never reused.
   */
  "id": string;
  "lines"?: OrdersCreatedLineItem[];
  "note": string | null;
  "pair"?: [string, number?];
  "payment"?: {
    "card": string;
  } | {
    "iban": string;
  } | null;
  "price": number;
  "self"?: boolean;
  "state"?: "new" | "paid" | "in transit" | "2nd try" | "";
  "tags"?: { [name: string]: string };
  "type"?: "order";
}

export interface OrdersCreatedCustomer {
  "name": string;
  [name: string]: unknown;
}

export interface OrdersCreatedLineItem {
  "instead"?: OrdersCreatedLineItem;
  "parts"?: OrdersCreatedLineItem[];
  "sku": string;
}

/** Payloads of `process.**`. */
export interface ProcessAll {
  "ts": number;
}

/** Payloads of `process.*.state`. */
export interface ProcessAnyState {
  "state": "up" | "down";
}

/** Payloads of `process.web.cpu.load`. */
export type ProcessWebCpuLoad = number;

/** Payloads of `process.web.state`. */
export interface ProcessWebState {
  "pid": number;
}

/** Payloads of `self`. */
export type Self = string;

/** Payloads of `tree`. */
export interface Tree {
  "children"?: TreeRoot[];
  "map"?: TreeMap;
  "value"?: TreeWord;
}

export type TreeMap = { [name: string]: TreeMap };

export interface TreeRoot {
  "children"?: TreeRoot[];
  "map"?: TreeMap;
  "value"?: TreeWord;
}

export type TreeWord = string;
