//! Programs in other languages write rows into MongoDB; see `crate::outbox::writers`.

use super::outbox::world;
use crate::outbox::writers::{check, node, python};

#[test]
fn node_writes_rows_with_the_driver_of_mongodb() {
    let program = r#"
import { MongoClient } from "mongodb";
import { take } from "./mongodb.mjs";

const client = new MongoClient(process.argv[2]);
const skus = ["tea", "cups", "spoons"];
await client.db().collection("stock").insertMany(skus.map((sku) => ({ _id: sku, remaining: 12, version: 0 })));
const asked = Array.from({ length: 30 }, async (_, n) => {
  const sku = skus[n % 3];
  try {
    return { sku, remaining: await take(client, sku, 1 + (n % 4)) };
  } catch (error) {
    if (!error.message.startsWith("not enough")) throw error;
    return { refused: error.message };
  }
});
for (const answer of await Promise.all(asked)) console.log(JSON.stringify(answer));
await client.close();
"#;
    if let Some(program) = node("mongodb.mjs", program) {
        check(&world().outbox, program);
    }
}

#[test]
fn python_writes_rows_with_the_driver_of_mongodb() {
    let program = r#"
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pymongo import MongoClient
from mongodb import take

client = MongoClient(sys.argv[1])
skus = ["tea", "cups", "spoons"]
client.get_default_database().stock.insert_many({"_id": sku, "remaining": 12, "version": 0} for sku in skus)

def ask(n):
    sku = skus[n % 3]
    try:
        return {"sku": sku, "remaining": take(client, sku, 1 + n % 4)}
    except ValueError as error:
        return {"refused": str(error)}

with ThreadPoolExecutor(8) as pool:
    for answer in pool.map(ask, range(30)):
        print(json.dumps(answer))
client.close()
"#;
    if let Some(program) = python("mongodb.py", program) {
        check(&world().outbox, program);
    }
}
