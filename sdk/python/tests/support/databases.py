"""Databases of a test's own with the table of an outbox, and a hub that drains them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from .hub import program

#: `cargo xtask python` starts a PostgreSQL and sets it.
POSTGRES = os.environ.get("EVENT_HUB_TEST_POSTGRES")


class Database:
    """An address as the hub takes it, and one as SQLAlchemy does."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        if kind == "sqlite":
            self.path = directory / "shop.db"
            self.hub_url = f"sqlite:{self.path}"
            self.engine_url = f"sqlite:///{self.path}"
            self.async_engine_url = f"sqlite+aiosqlite:///{self.path}"
            return
        assert POSTGRES is not None
        self.name = f"python_{uuid.uuid4().hex}"
        parts = urlsplit(POSTGRES)
        self.hub_url = urlunsplit(parts._replace(path=f"/{self.name}"))
        self.engine_url = self.async_engine_url = urlunsplit(parts._replace(scheme="postgresql+psycopg", path=f"/{self.name}"))

    def make(self) -> None:
        """Makes the database, unless it is a file, and the table. The database stays: the server goes when the tests have run."""
        if self.kind == "postgres":
            assert POSTGRES is not None
            with psycopg.connect(POSTGRES, autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE {self.name}".encode())
        done = subprocess.run([program(), "outbox", "init", "--apply", "--db", self.hub_url], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    async def make_async(self) -> None:
        await asyncio.to_thread(self.make)

    @property
    def config(self) -> str:
        """For a hub that drains it."""
        return f'[[outbox]]\nname = "shop"\nurl = "{self.hub_url}"\n'
