// A long list in order and filtered, kept up to date at the cost of what changes: a hub can have 100,000 topics, and a sample a second.

type Entry<T> = {
  readonly id: string;
  readonly row: T;
  key: number | string;
  gone: boolean;
  /** What the filter of this name has said of the row. */
  filter: string | undefined;
  matches: boolean;
};

/** What a table shows: ids in their order, and the row of an id. */
export type Listing<T> = Readonly<{ ids: readonly string[]; get: (id: string) => T | undefined }>;

export type Order<T> = Readonly<{ name: string; key: (row: T) => number | string; descending: boolean }>;
export type Filter<T> = Readonly<{ name: string; matches: (row: T) => boolean }>;

export class SortedList<T> {
  readonly rows = new Map<string, T>();
  /** All rows in order, as they were when the order was last brought up to date. */
  #entries: Entry<T>[] = [];
  readonly #byId = new Map<string, Entry<T>>();
  readonly #changed = new Set<string>();
  #order: Order<T> | undefined;
  #filter: Filter<T> | undefined;
  #shown: readonly string[] | undefined;

  put(id: string, row: T): void {
    this.rows.set(id, row);
    this.#changed.add(id);
  }

  delete(id: string): void {
    if (this.rows.delete(id)) this.#changed.add(id);
  }

  /** Takes these rows instead of all others. */
  replace(rows: Iterable<readonly [string, T]>): void {
    const fresh = new Map(rows);
    for (const id of this.rows.keys()) if (!fresh.has(id)) this.delete(id);
    for (const [id, row] of fresh) if (this.rows.get(id) !== row) this.put(id, row);
  }

  /** Orders and filters are the same if their names are. */
  listing(order: Order<T>, filter: Filter<T> | undefined): Listing<T> {
    const reordered = this.#order?.name !== order.name || this.#order.descending !== order.descending;
    this.#order = order;
    if (reordered) this.#sortAll(order);
    else if (this.#changed.size > 0) this.#merge(order);
    if (this.#filter?.name !== filter?.name) this.#shown = undefined;
    this.#filter = filter;
    this.#shown ??= (filter === undefined ? this.#entries : this.#entries.filter((entry) => isShown(entry, filter))).map(({ id }) => id);
    return { ids: this.#shown, get: (id) => this.rows.get(id) };
  }

  /** Brings the entries up to date with the rows; those that are new have to find their places. */
  #take({ key }: Order<T>): Entry<T>[] {
    const fresh: Entry<T>[] = [];
    for (const id of this.#changed) {
      const old = this.#byId.get(id);
      if (old !== undefined) old.gone = true;
      const row = this.rows.get(id);
      if (row === undefined) {
        this.#byId.delete(id);
        continue;
      }
      const entry = { id, row, key: key(row), gone: false, filter: undefined, matches: true };
      this.#byId.set(id, entry);
      fresh.push(entry);
    }
    this.#changed.clear();
    this.#shown = undefined;
    return fresh;
  }

  #sortAll(order: Order<T>): void {
    this.#take(order);
    const entries = [...this.#byId.values()];
    for (const entry of entries) entry.key = order.key(entry.row);
    this.#entries = sorted(entries, order.descending);
  }

  /** Takes what changed out of its old places and puts it into the new ones. */
  #merge(order: Order<T>): void {
    const added = sorted(this.#take(order), order.descending);
    const merged: Entry<T>[] = [];
    let next = 0;
    for (const entry of this.#entries) {
      if (entry.gone) continue;
      for (let one = added[next]; one !== undefined && compare(one, entry, order.descending) < 0; one = added[next]) {
        merged.push(one);
        next += 1;
      }
      merged.push(entry);
    }
    for (; next < added.length; next += 1) merged.push(added[next] as Entry<T>);
    this.#entries = merged;
  }
}

/** A row that has not changed is not asked about again: the text of a payload is long. */
function isShown<T>(entry: Entry<T>, filter: Filter<T>): boolean {
  if (entry.filter !== filter.name) {
    entry.filter = filter.name;
    entry.matches = filter.matches(entry.row);
  }
  return entry.matches;
}

function compare<T>(a: Entry<T>, b: Entry<T>, descending: boolean): number {
  if (a.key !== b.key) return a.key < b.key === descending ? 1 : -1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** Entries by their keys, then by their ids. */
function sorted<T>(entries: Entry<T>[], descending: boolean): Entry<T>[] {
  const isNumeric = entries.every(({ key }) => typeof key === "number" && !Number.isNaN(key));
  // Names come in order, and sorting what is in order costs little.
  return isNumeric ? byNumber(entries, descending) : entries.sort((a, b) => compare(a, b, descending));
}

/** The browser sorts bare numbers many times as fast as entries: each entry then finds its place by its number. */
function byNumber<T>(entries: readonly Entry<T>[], descending: boolean): Entry<T>[] {
  const sign = descending ? -1 : 1;
  const numbers = Float64Array.from(entries, ({ key }) => sign * (key as number)).sort();
  const taken = new Uint32Array(entries.length);
  const placed = new Array<Entry<T>>(entries.length);
  for (const entry of entries) {
    const first = lowerBound(numbers, sign * (entry.key as number));
    placed[first + (taken[first] ?? 0)] = entry;
    taken[first] = (taken[first] ?? 0) + 1;
  }
  for (let from = 0; from < placed.length; from += Math.max(1, taken[from] ?? 1)) {
    const same = taken[from] ?? 1;
    if (same > 1) inOrderOfIds(placed, from, from + same);
  }
  return placed;
}

/** The first place of a number among sorted ones. */
function lowerBound(numbers: Float64Array, wanted: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Sorts entries that have the same key. */
function inOrderOfIds<T>(entries: Entry<T>[], from: number, to: number): void {
  for (let at = from + 1; at < to; at += 1) {
    if ((entries[at - 1] as Entry<T>).id < (entries[at] as Entry<T>).id) continue;
    const same = entries.slice(from, to).sort((a, b) => (a.id < b.id ? -1 : 1));
    same.forEach((entry, n) => {
      entries[from + n] = entry;
    });
    return;
  }
}

/** The listing of rows that are in order already. */
export function inOrder<T>(rows: readonly T[], id: (row: T) => string): Listing<T> {
  const byId = new Map(rows.map((row) => [id(row), row]));
  return { ids: [...byId.keys()], get: (one) => byId.get(one) };
}
