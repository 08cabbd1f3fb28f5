"""Waiting for something that callbacks bring about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_TIMEOUT = 60.0


class Condition:
    """``await condition.until(lambda: …)``: the function is asked again after every ``changed``."""

    def __init__(self) -> None:
        self._news = asyncio.Event()

    def changed(self) -> None:
        self._news.set()

    async def until(self, holds: Callable[[], bool], timeout: float = _TIMEOUT) -> None:
        async def wait() -> None:
            while not holds():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), timeout)
