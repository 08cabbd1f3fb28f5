// Sequence numbers in order.

export class SortedSeqs {
  private readonly list: number[] = [];

  get size(): number {
    return this.list.length;
  }

  add(seq: number): void {
    const at = this.indexOf(seq);
    if (this.list[at] !== seq) this.list.splice(at, 0, seq);
  }

  /** Whether it was there. */
  delete(seq: number): boolean {
    const at = this.indexOf(seq);
    if (this.list[at] !== seq) return false;
    this.list.splice(at, 1);
    return true;
  }

  /** The lowest one above `seq`. */
  above(seq: number): number | undefined {
    return this.list[this.indexOf(seq + 1)];
  }

  clear(): void {
    this.list.length = 0;
  }

  /** Where it is, or would be. */
  private indexOf(seq: number): number {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.list[middle] ?? Infinity) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
