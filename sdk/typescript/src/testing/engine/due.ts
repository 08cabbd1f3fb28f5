// What is due when: a heap by time. Entries are not taken out when they no longer matter; whoever takes one looks whether it still does.

export class DueQueue<T> {
  private readonly heap: { at: number; what: T }[] = [];

  push(at: number, what: T): void {
    const { heap } = this;
    heap.push({ at, what });
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (this.at(parent) <= this.at(child)) return;
      this.swap(parent, child);
      child = parent;
    }
  }

  /** What comes next, be it due or not. */
  peek(): { at: number; what: T } | undefined {
    return this.heap[0];
  }

  pop(): T | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (!first || !last || heap.length === 0) return first?.what;
    heap[0] = last;
    let parent = 0;
    for (;;) {
      let least = parent;
      for (const child of [2 * parent + 1, 2 * parent + 2]) {
        if (child < heap.length && this.at(child) < this.at(least)) least = child;
      }
      if (least === parent) return first.what;
      this.swap(parent, least);
      parent = least;
    }
  }

  clear(): void {
    this.heap.length = 0;
  }

  private at(index: number): number {
    return this.heap[index]?.at ?? Infinity;
  }

  private swap(a: number, b: number): void {
    const { heap } = this;
    const [left, right] = [heap[a], heap[b]];
    if (left && right) [heap[a], heap[b]] = [right, left];
  }
}
