// The tables of outboxes and inboxes in SQL.

import { wrong } from "./row.ts";

const TABLE = /^(?:[A-Za-z_][A-Za-z0-9_]{0,39}\.)?[A-Za-z_][A-Za-z0-9_]{0,39}$/;

/** A table's name, quoted. */
export function quotedTable(table: string): string {
  if (TABLE.test(table)) return table.split(".").map((part) => `"${part}"`).join(".");
  throw wrong(`the table is ${JSON.stringify(table)}; it must be letters, digits and underscores, at most 40, perhaps behind a schema and a dot`);
}
