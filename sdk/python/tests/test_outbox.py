"""Rows that a service writes with SQLAlchemy and Django, drained by a real hub."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import BigInteger, Integer, Text, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from event_hub_client import BadRequestError, Client, ForbiddenError, TooLargeError
from event_hub_client.frames import decode
from event_hub_client.ids import new_id
from event_hub_client.outbox import checked_row
from event_hub_client.outbox import sqlalchemy as sqlalchemy_outbox

from .conftest import StartHub
from .support.databases import POSTGRES, Database
from .support.hub import Hub

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.skipif(POSTGRES is None, reason="EVENT_HUB_TEST_POSTGRES is not set"))]


class Base(DeclarativeBase):
    pass


class Stock(Base):
    __tablename__ = "stock"
    sku: Mapped[str] = mapped_column(Text, primary_key=True)
    remaining: Mapped[int] = mapped_column(Integer)
    version: Mapped[int] = mapped_column(BigInteger)


async def drained(hub: Hub, topic: str, count: int) -> list[Any]:
    """The events that the hub has drained, in order."""
    async with Client(hub.url, hub.token()) as client, await client.watch(topic, start="earliest") as events:
        return [await asyncio.wait_for(events.__anext__(), 30) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_and_its_event_are_there_together_or_neither_is(kind: str, tmp_path: Path, start_hub: StartHub) -> None:
    database = Database(kind, tmp_path)
    await database.make_async()
    outbox = sqlalchemy_outbox.Outbox()
    engine = create_engine(database.engine_url)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Stock(sku="tea", remaining=3, version=0))

    def take(pieces: int) -> str:
        with Session(engine) as session, session.begin():
            item = session.get_one(Stock, "tea", with_for_update=True)
            item.remaining -= pieces
            item.version += 1
            payload = {"remaining": item.remaining}
            id = outbox.add(session, "shop.stock", payload, key="tea", ord=item.version, headers={"via": "sdk"})
            if item.remaining < 0:
                raise ValueError("not enough tea")
            return id

    first = take(1)
    with pytest.raises(ValueError, match="not enough tea"):
        take(3)
    second = take(2)
    hub = await start_hub(database.config)
    events = await drained(hub, "shop.stock", 2)
    assert [(event.id, event.key, event.headers, event.payload) for event in events] == [
        (first, "tea", {"via": "sdk"}, {"remaining": 2}),
        (second, "tea", {"via": "sdk"}, {"remaining": 0}),
    ]
    assert len(await hub.log("shop.stock")) == 2
    engine.dispose()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_async_session_writes_rows_that_stay_exact(kind: str, tmp_path: Path, start_hub: StartHub) -> None:
    database = Database(kind, tmp_path)
    await database.make_async()
    table = "outbox" if kind == "sqlite" else "public.outbox"
    outbox = sqlalchemy_outbox.Outbox(table)
    engine = create_async_engine(database.async_engine_url)
    payloads = [{"n": 2**80, "half": 0.5, "text": "ü"}, {"a\0": -(2**63), "d": Decimal("1E+400")}, None]
    async with AsyncSession(engine) as session, session.begin():
        ids = [await outbox.add_async(session, "shop.numbers", payload, key="k", ord=2**40 + at) for at, payload in enumerate(payloads)]
    async with engine.begin() as connection:
        ids.append(await outbox.add_async(connection, "shop.numbers", "last", key="k", ord=2**62))
    await engine.dispose()
    hub = await start_hub(database.config)
    events = await drained(hub, "shop.numbers", 4)
    assert [event.id for event in events] == ids
    assert [event.payload for event in events] == [*payloads, "last"]


@pytest.fixture(scope="module")
def django_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Database]]:
    """Django's settings are of the process: one database of each kind."""
    import django
    from django.conf import settings
    from django.db import connections

    databases = {"sqlite": Database("sqlite", tmp_path_factory.mktemp("django"))}
    wanted: dict[str, dict[str, Any]] = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(databases["sqlite"].path), "OPTIONS": {"timeout": 30}}
    }
    if POSTGRES is not None:
        databases["postgres"] = Database("postgres", Path())
        about = psycopg.conninfo.conninfo_to_dict(databases["postgres"].hub_url)
        wanted["postgres"] = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": about["dbname"],
            "USER": about.get("user", ""),
            "PASSWORD": about.get("password", ""),
            "HOST": about.get("host", ""),
            "PORT": about.get("port", ""),
        }
    settings.configure(DATABASES=wanted, USE_TZ=True)
    django.setup()
    for database in databases.values():
        database.make()
    yield databases
    connections.close_all()


@pytest.mark.parametrize("kind", KINDS)
async def test_django_writes_rows_in_its_transactions(kind: str, django_databases: dict[str, Database], start_hub: StartHub) -> None:
    from django.db import connections, transaction

    from event_hub_client.outbox.django import Outbox

    using = "default" if kind == "sqlite" else "postgres"
    outbox = Outbox(using=using)

    def write() -> list[str]:
        with pytest.raises(BadRequestError, match=r"transaction\.atomic"):
            outbox.add("shop.orders", 1)
        with transaction.atomic(using=using):
            with connections[using].cursor() as cursor:
                cursor.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
                cursor.execute("INSERT INTO orders VALUES (17)")
            ids = [outbox.add("shop.orders", {"order": 2**70, "percent": "%s"}, key="order-17", headers={"via": "%s"}, ord=2**40)]
        with pytest.raises(ValueError, match="no"), transaction.atomic(using=using):
            outbox.add("shop.orders", "is gone")
            raise ValueError("no")
        with transaction.atomic(using=using):
            ids.append(outbox.add("shop.orders", None, key="order-17", ord=2**40 + 1))
        connections[using].close()
        return ids

    ids = await asyncio.to_thread(write)
    hub = await start_hub(django_databases[kind].config)
    events = await drained(hub, "shop.orders", 2)
    assert [event.id for event in events] == ids
    assert [event.payload for event in events] == [{"order": 2**70, "percent": "%s"}, None]
    assert events[0].headers == {"via": "%s"}
    assert len(await hub.log("shop.orders")) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "or ders"}, BadRequestError),
        ({"topic": ""}, BadRequestError),
        ({"topic": "a" * 201}, BadRequestError),
        ({"topic": "_hub.x"}, BadRequestError),
        ({"topic": "dlq.orders"}, ForbiddenError),
        ({"topic": "orders.snapshot"}, ForbiddenError),
        ({"key": "k" * 513}, BadRequestError),
        ({"key": "a\0b"}, BadRequestError),
        ({"key": 17}, BadRequestError),
        ({"id": "no uuid"}, BadRequestError),
        ({"ord": 2**63}, BadRequestError),
        ({"ord": 1.5}, BadRequestError),
        ({"ord": True}, BadRequestError),
        ({"headers": {"X-Hub-Audience": "me"}}, BadRequestError),
        ({"headers": {"": "x"}}, BadRequestError),
        ({"headers": {"a": 1}}, BadRequestError),
        ({"headers": {f"h{n}": "" for n in range(65)}}, BadRequestError),
        ({"headers": {"a": "x" * 8192}}, BadRequestError),
        ({"payload": float("inf")}, BadRequestError),
        ({"payload": object()}, BadRequestError),
        ({"payload": "x" * 1024 * 1024}, TooLargeError),
        ({"payload": decode("[" * 129 + "]" * 129)}, BadRequestError),
    ],
)
def test_a_row_that_no_hub_would_publish_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    row: dict[str, Any] = {"topic": "orders", "payload": 1, **arguments}
    with pytest.raises(error):
        checked_row(**row)


def test_a_row_at_the_limits_is_taken() -> None:
    row = checked_row("a" * 200, decode("[" * 128 + "]" * 128), key="k" * 512, headers={"snapshot": '"[['}, ord=-(2**63))
    assert row.headers == '{"snapshot":"\\"[["}'
    assert checked_row("snapshot", {"a": "[[[" * 200 + '\\"'}).payload.startswith('{"a"')
    assert checked_row("dlq", 1).topic == "dlq"


def test_what_is_no_table_and_no_transaction_is_refused(tmp_path: Path) -> None:
    for table in ('out"box', "a.b.c", "", "1a", "x" * 41):
        with pytest.raises(BadRequestError):
            sqlalchemy_outbox.Outbox(table)
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}", isolation_level="AUTOCOMMIT")
    with Session(engine) as session, pytest.raises(BadRequestError, match="commits every statement"):
        session.execute(text("SELECT 1"))
        sqlalchemy_outbox.Outbox().add(session, "a", 1)
    engine.dispose()


def test_a_row_has_the_columns_that_drainers_read(tmp_path: Path) -> None:
    database = Database("sqlite", tmp_path)
    database.make()
    engine = create_engine(database.engine_url)
    with Session(engine) as session, session.begin():
        id = sqlalchemy_outbox.Outbox().add(session, "a", {"n": 1}, key="k", headers={"h": "v"}, ord=7)
    engine.dispose()
    with closing(sqlite3.connect(database.path)) as rows:
        row = rows.execute("SELECT id, topic, payload, headers, key, ord, status, attempts FROM outbox").fetchone()
    assert row == (id, "a", '{"n":1}', '{"h":"v"}', "k", 7, "pending", 0)


def test_ids_rise_also_within_a_millisecond() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(set(ids))
    assert all(id[14] == "7" and id[19] in "89ab" for id in ids)
