/** Resolves once something is true; it is looked at whenever `changed` is called. */
export class Condition {
  #waiting: { isTrue: () => boolean; resolve: () => void }[] = [];

  changed(): void {
    const met = this.#waiting.filter(({ isTrue }) => isTrue());
    this.#waiting = this.#waiting.filter((other) => !met.includes(other));
    for (const { resolve } of met) resolve();
  }

  until(isTrue: () => boolean): Promise<void> {
    if (isTrue()) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ isTrue, resolve }));
  }
}
