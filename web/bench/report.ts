// Figures with their limits, as the other benchmarks print them.

export type Limit = Readonly<{ most: number }>;
type Figure = Readonly<{ name: string; samples: readonly number[]; unit: string; limit: Limit | undefined }>;

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length % 2 === 1 ? (sorted[Math.floor(middle)] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

export class Report {
  readonly #json: boolean;
  readonly #limited: string[] = [];
  readonly #missed: string[] = [];

  constructor(json: boolean) {
    this.#json = json;
    if (!json) console.log(`${"dashboard".padEnd(58)}${"median".padStart(10)}  min .. max`);
  }

  /** Prints a figure: the median counts. */
  figure(name: string, samples: readonly number[], unit: string, limit?: Limit): void {
    const figure: Figure = { name, samples, unit, limit };
    const value = median(samples);
    if (limit !== undefined) {
      this.#limited.push(name);
      if (value > limit.most) this.#missed.push(name);
    }
    console.log(this.#json ? this.#asJson(figure, value) : this.#asText(figure, value));
  }

  /** Prints which limits held. */
  end(): void {
    if (this.#json) return;
    console.log(`\n${this.#limited.length - this.#missed.length} of ${this.#limited.length} limits held`);
    for (const name of this.#missed) console.log(`  missed: ${name}`);
  }

  #asJson({ name, unit, limit }: Figure, value: number): string {
    const ratio = limit === undefined ? undefined : value / limit.most;
    return JSON.stringify({ bench: "dashboard", name, value, unit, limit: limit?.most, ratio });
  }

  #asText({ name, samples, unit, limit }: Figure, value: number): string {
    const shown = (number: number) => (Math.abs(number) >= 10 ? number.toFixed(0) : number.toFixed(3));
    const range = `${shown(Math.min(...samples))} .. ${shown(Math.max(...samples))}`;
    const verdict = limit === undefined ? "" : `at most ${limit.most}  ${value > limit.most ? "MISS" : "pass"}`;
    return `${name.padEnd(58)}${shown(value).padStart(10)}  ${range.padEnd(20)} ${unit.padEnd(8)} ${verdict}`;
  }
}
