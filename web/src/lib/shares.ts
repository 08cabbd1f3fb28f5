// A rate over several jobs.

/** A rate as whole numbers that add up to it, as even as they can be; undefined if not every one of them could have one per second. */
export function shares(rate: number, jobs: number): readonly number[] | undefined {
  if (jobs === 0 || rate < jobs) return undefined;
  const [least, more] = [Math.floor(rate / jobs), rate % jobs];
  return Array.from({ length: jobs }, (_, n) => least + (n < more ? 1 : 0));
}
