"""Rows for an outbox on PostgreSQL or SQLite, with SQLAlchemy 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, bindparam, text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from ..errors import BadRequestError
from . import PAYLOAD_BYTES, CheckedRow, checked_row, insert_statement, quoted_table

__all__ = ["Outbox"]


class Outbox:
    """An outbox whose rows a drainer publishes: an ``[[outbox]]`` of a hub, or ``event-hub outbox drain``.

    ``event-hub outbox init`` makes the table.
    """

    def __init__(self, table: str = "outbox", *, max_payload: int = PAYLOAD_BYTES) -> None:
        """
        :param table: The table, perhaps with its schema: ``shop.outbox``.
        :param max_payload: Bytes of a payload that the hub takes: its ``limits.max_payload``.
        """
        quoted_table(table)
        self._table = table
        self._max_payload = max_payload

    def add(
        self,
        session: Session | Connection,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        ord: int | None = None,
    ) -> str:
        """Writes a row in the session's transaction: it is published if that is committed, and gone if not. Returns the id that the event
        will have.

        :param key: The entity that it is about: rows of one key are published in their order.
        :param ord: The row's number among those of its key, such as the version of the entity. Without it rows go by time.
        :raises HubError: ``bad_request``, ``too_large`` or ``forbidden`` for a row that no hub would publish. Nothing is written then.
        """
        row = checked_row(topic, payload, key=key, headers=headers, id=id, ord=ord, max_payload=self._max_payload)
        self._insert(session, row)
        return row.id

    async def add_async(
        self,
        session: AsyncSession | AsyncConnection,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | None = None,
        ord: int | None = None,
    ) -> str:
        """The same with a session of ``sqlalchemy.ext.asyncio``."""
        row = checked_row(topic, payload, key=key, headers=headers, id=id, ord=ord, max_payload=self._max_payload)
        await session.run_sync(lambda inner: self._insert(inner, row))
        return row.id

    def _insert(self, session: Session | Connection, row: CheckedRow) -> None:
        connection = session.connection() if isinstance(session, Session) else session
        if _commits_every_statement(connection):
            raise BadRequestError("the connection commits every statement by itself; use one with transactions")
        dialect = connection.dialect.name
        if dialect not in ("postgresql", "sqlite"):
            raise BadRequestError(f"the database is {dialect}; postgresql and sqlite are supported")
        statement = text(insert_statement(self._table, ":{}", dialect == "postgresql"))
        values = {
            "id": row.id,
            "topic": row.topic,
            "key": row.key,
            "ord": row.ord,
            "payload": row.payload,
            "headers": row.headers,
        }
        connection.execute(statement.bindparams(bindparam("ord", type_=BigInteger)), values)


def _commits_every_statement(connection: Connection) -> bool:
    level = connection.get_execution_options().get("isolation_level")
    if level is not None:
        return bool(level == "AUTOCOMMIT")
    # Of the engine. SQLAlchemy before 2.0.43 cannot tell without asking the database.
    detect = getattr(connection.dialect, "detect_autocommit_setting", None)
    return detect is not None and bool(detect(connection.connection.dbapi_connection))
