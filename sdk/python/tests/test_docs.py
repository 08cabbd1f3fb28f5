"""Every block of Python in the pages runs against a real hub, prints what it says, and has right types."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from event_hub_client import Client

from .conftest import StartHub
from .support.fixtures import all_fixtures
from .support.hub import program

PACKAGE = Path(__file__).parents[1]
PAGES = [PACKAGE / "README.md", PACKAGE.parents[1] / "README.md", PACKAGE.parents[1] / "docs/sdk-python.md"]

CHECKLIST = PACKAGE.parents[1] / "docs/write-a-client.md"

_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^\n]*) -->\n)?```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_PRINTS = re.compile(r"# prints: (.*)$", re.MULTILINE)
_DRAINED = re.compile(r"# drained: (.*)$", re.MULTILINE)

#: What a block stands in that is no program of its own.
_FRAME = """\
import asyncio
import os

from event_hub_client import Client


async def main() -> None:
    async with Client("ws://127.0.0.1:8090/", os.environ["TOKEN"]) as hub:
{block}


asyncio.run(main())
"""


class Block(NamedTuple):
    title: str
    #: What has to happen around it: a comment before the block.
    mark: str
    code: str

    @property
    def program(self) -> str:
        return self.code if self.mark.startswith("program") else _FRAME.format(block=textwrap.indent(self.code, " " * 8))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = [
        Block(f"{page.relative_to(PACKAGE.parents[1])}:{text.count(chr(10), 0, match.start()) + 1}", match["mark"] or "", match["code"])
        for match in _BLOCK.finditer(text)
    ]
    assert len(found) == text.count("```python\n")
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def test_the_checklist_for_clients_names_fixtures_that_exist() -> None:
    named = re.findall(r"`([a-z-]+) / ([^`]+)`", CHECKLIST.read_text())
    assert len(named) > 30
    existing = {(file, fixture["name"]) for file, fixture in all_fixtures()}
    assert [fixture for fixture in named if fixture not in existing] == []


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 20


def test_the_types_of_all_blocks_are_right(tmp_path: Path) -> None:
    for at, block in enumerate(BLOCKS):
        (tmp_path / f"block_{at}.py").write_text(f"# {block.title}\n{block.program}")
    settings = ["--config-file", str(PACKAGE / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *settings, *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(PACKAGE / "src")})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", BLOCKS, ids=[block.title for block in BLOCKS])
async def test_a_block_runs_and_prints_what_it_says(block: Block, tmp_path: Path, start_hub: StartHub) -> None:
    outbox = ""
    if block.mark == "program with an outbox":
        outbox = f'[[outbox]]\nname = "shop"\nurl = "sqlite:{tmp_path / "shop.db"}"\n'
        made = await asyncio.create_subprocess_exec(program(), "outbox", "init", "--apply", "--db", "sqlite:shop.db", cwd=tmp_path)
        assert await made.wait() == 0
    hub = await start_hub(outbox)
    (tmp_path / "program.py").write_text(block.program.replace("ws://127.0.0.1:8090/", hub.url))
    environment = {**os.environ, "TOKEN": hub.token(sub="developer"), "PYTHONPATH": str(PACKAGE / "src")}
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "program.py"),
        cwd=tmp_path,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, errors = await asyncio.wait_for(running.communicate(), 60)
    assert running.returncode == 0, errors.decode()
    assert errors.decode() == ""
    assert printed.decode().splitlines() == _PRINTS.findall(block.code)
    for expected in _DRAINED.findall(block.code):
        topic = expected.split()[0]
        async with Client(hub.url, hub.token()) as client, await client.watch(topic, start="earliest") as events:
            event = await asyncio.wait_for(events.__anext__(), 30)
            assert f"{event.topic} {event.key} {event.payload}" == expected
