# pip install pymongo
from datetime import datetime, timezone
from uuid import uuid4

from bson.binary import Binary
from pymongo import MongoClient, ReturnDocument


def take(client: MongoClient, sku: str, pieces: int) -> int:
    """Takes pieces from stock and says so, or does neither. Answers how many are left."""
    db = client.get_default_database()

    def both(session):
        item = db.stock.find_one_and_update(
            {"_id": sku},
            {"$inc": {"remaining": -pieces, "version": 1}},
            session=session,
            return_document=ReturnDocument.AFTER,
        )
        if item is None:
            raise ValueError(f"no {sku} in stock")
        row = {
            "_id": Binary.from_uuid(uuid4()),  # the event's id
            "topic": "shop.stock",
            "key": sku,  # rows of one key are published in their order:
            "ord": item["version"],  # this one, which no other change of the item has
            "payload": {"sku": sku, "remaining": item["remaining"]},
            "status": "pending",
            "ts": datetime.now(timezone.utc),
            "attempts": 0,
        }
        db.outbox.insert_one(row, session=session)
        if item["remaining"] < 0:
            raise ValueError(f"not enough {sku}")  # the row goes with the change
        return item["remaining"]

    with client.start_session() as session:
        return session.with_transaction(both)
