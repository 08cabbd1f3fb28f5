//! Programs in other languages write rows into PostgreSQL; see `crate::outbox::writers`.

use super::world;
use crate::outbox::writers::{check, node, python};

#[test]
fn node_writes_rows_with_the_driver_of_postgresql() {
    let program = r#"
import pg from "pg";
import { take } from "./postgres.mjs";

const pool = new pg.Pool({ connectionString: process.argv[2], max: 8 });
const skus = ["tea", "cups", "spoons"];
await pool.query("CREATE TABLE stock (sku text PRIMARY KEY, remaining integer NOT NULL, version bigint NOT NULL)");
await pool.query("INSERT INTO stock SELECT sku, 12, 0 FROM unnest($1::text[]) AS sku", [skus]);
const asked = Array.from({ length: 30 }, async (_, n) => {
  const sku = skus[n % 3];
  try {
    return { sku, remaining: await take(pool, sku, 1 + (n % 4)) };
  } catch (error) {
    if (!error.message.startsWith("not enough")) throw error;
    return { refused: error.message };
  }
});
for (const answer of await Promise.all(asked)) console.log(JSON.stringify(answer));
await pool.end();
"#;
    if let Some(program) = node("postgres.mjs", program) {
        check(&world().outbox, program);
    }
}

#[test]
fn python_writes_rows_with_the_driver_of_postgresql() {
    let program = r#"
import json, sys
from concurrent.futures import ThreadPoolExecutor
import psycopg
from postgres import take

skus = ["tea", "cups", "spoons"]
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("CREATE TABLE stock (sku text PRIMARY KEY, remaining integer NOT NULL, version bigint NOT NULL)")
    for sku in skus:
        connection.execute("INSERT INTO stock VALUES (%s, 12, 0)", (sku,))

def ask(n):
    sku = skus[n % 3]
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        try:
            return {"sku": sku, "remaining": take(connection, sku, 1 + n % 4)}
        except ValueError as error:
            return {"refused": str(error)}

with ThreadPoolExecutor(8) as pool:
    for answer in pool.map(ask, range(30)):
        print(json.dumps(answer))
"#;
    if let Some(program) = python("postgres.py", program) {
        check(&world().outbox, program);
    }
}
