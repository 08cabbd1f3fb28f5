"""Rows for an outbox on PostgreSQL or SQLite, with Django."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from ..errors import BadRequestError
from . import PAYLOAD_BYTES, checked_row, insert_statement, quoted_table

__all__ = ["Outbox"]


class Outbox:
    """An outbox whose rows a drainer publishes: an ``[[outbox]]`` of a hub, or ``event-hub outbox drain``.

    ``event-hub outbox init`` makes the table. It is no model, and no migration knows it.
    """

    def __init__(self, table: str = "outbox", *, using: str | None = None, max_payload: int = PAYLOAD_BYTES) -> None:
        """
        :param table: The table, perhaps with its schema: ``shop.outbox``.
        :param using: The alias of the database; Django's default unless given.
        :param max_payload: Bytes of a payload that the hub takes: its ``limits.max_payload``.
        """
        quoted_table(table)
        self._table = table
        self._using = using
        self._max_payload = max_payload

    def add(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        ord: int | None = None,
    ) -> str:
        """Writes a row in the transaction of ``transaction.atomic()``: it is published if that is committed, and gone if not. Returns the
        id that the event will have.

        :param key: The entity that it is about: rows of one key are published in their order.
        :param ord: The row's number among those of its key, such as the version of the entity. Without it rows go by time.
        :raises HubError: ``bad_request``, ``too_large`` or ``forbidden`` for a row that no hub would publish, or outside of a transaction.
            Nothing is written then.
        """
        connection = transaction.get_connection(self._using)
        if not connection.in_atomic_block:
            raise BadRequestError("there is no transaction; add the row inside transaction.atomic(), beside your change")
        if connection.vendor not in ("postgresql", "sqlite"):
            raise BadRequestError(f"the database is {connection.vendor}; postgresql and sqlite are supported")
        row = checked_row(topic, payload, key=key, headers=headers, id=id, ord=ord, max_payload=self._max_payload)
        statement = insert_statement(self._table, "%s", connection.vendor == "postgresql")
        with connection.cursor() as cursor:
            cursor.execute(statement, [row.id, row.topic, row.key, row.ord, row.payload, row.headers])
        return row.id
