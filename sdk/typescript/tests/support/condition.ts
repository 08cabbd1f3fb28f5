/** The longest wait for a condition: a test that waits longer fails with the condition's text instead of blocking the run. */
const CONDITION_TIMEOUT_MS = 120_000;

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
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => {
        reject(new Error(`not true within ${CONDITION_TIMEOUT_MS} ms: ${isTrue.toString()}`));
      }, CONDITION_TIMEOUT_MS);
      const met = (): void => {
        clearTimeout(timeout);
        resolve();
      };
      this.#waiting.push({ isTrue, resolve: met });
    });
  }
}

/** Asks again and again until something is true: for what tells nobody that it has changed. */
export async function poll(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + CONDITION_TIMEOUT_MS;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error(`not true within ${CONDITION_TIMEOUT_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
