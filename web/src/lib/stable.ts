// Rows in the order in which they were shown, with the values that they have now.

/** `shown` with the newest values of `rows`. What is gone stays as it was; what is new is left out. */
export function updatedInPlace<T>(shown: readonly T[], rows: readonly T[], id: (row: T) => string): readonly T[] {
  const newest = new Map(rows.map((row) => [id(row), row]));
  return shown.map((row) => newest.get(id(row)) ?? row);
}
