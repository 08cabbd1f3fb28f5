"""A timer that can be set again."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Runs a function once its time has come. Setting it again replaces the time."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        self._handle: asyncio.TimerHandle | None = None
        #: When it runs, by the clock of the event loop; infinity if it is not set.
        self.at = math.inf

    def set(self, at: float) -> None:
        self.cancel()
        if at < math.inf:
            self.at = at
            self._handle = asyncio.get_running_loop().call_at(at, self._fire)

    def cancel(self) -> None:
        self.at = math.inf
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self.at = math.inf
        self._handle = None
        self._run()


def now() -> float:
    """The clock of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()
