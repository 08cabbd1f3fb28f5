# pip install psycopg
from uuid import uuid4

import psycopg
from psycopg.types.json import Json


def take(connection: psycopg.Connection, sku: str, pieces: int) -> int:
    """Takes pieces from stock and says so, or does neither. Answers how many are left."""
    with connection.transaction():
        item = connection.execute(
            "UPDATE stock SET remaining = remaining - %s, version = version + 1 WHERE sku = %s RETURNING remaining, version",
            (pieces, sku),
        ).fetchone()
        if item is None:
            raise ValueError(f"no {sku} in stock")
        remaining, version = item
        connection.execute(
            "INSERT INTO outbox (id, topic, key, ord, payload) VALUES (%s, %s, %s, %s, %s)",
            (uuid4(), "shop.stock", sku, version, Json({"sku": sku, "remaining": remaining})),
        )
        if remaining < 0:
            raise ValueError(f"not enough {sku}")  # the row goes with the change
        return remaining
