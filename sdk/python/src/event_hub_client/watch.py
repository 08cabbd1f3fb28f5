"""Reading without a group: nothing is settled, and the hub stores nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from .connection import log
from .errors import HubError
from .frames import Answer, fields_of
from .model import AfterSeq, Event, Filter, Lagged, Start, event_of
from .registry import Presence, Registry, Subscriber, options_of

#: With so many events waiting here, the hub is asked to hold the rest back, until few are left.
_MOST_WAITING = 1_000
_FEW_WAITING = 100


class Watch(Subscriber):
    """A reader without a group. It is an asynchronous iterator of events.

    After a lost connection a watcher of one topic goes on behind its last event. A watcher of a pattern or a list begins anew, and
    ``on_lagged`` is called without a number: there may be a gap.
    """

    group: None

    def __init__(
        self,
        registry: Registry,
        topic: str,
        *,
        start: Start | None,
        topics: Sequence[str] | None,
        filter: Filter | None,
        coalesce: bool | None,
        on_lagged: Callable[[Lagged], object] | None,
    ) -> None:
        super().__init__(registry, topic, None)
        self._start = start
        self._topics = topics
        self._filter = filter
        self._coalesce = coalesce
        self._on_lagged = on_lagged
        #: A place in the log is one of one topic.
        self._is_wide = "*" in topic or topics is not None
        self._last_seq: int | None = None
        self._was_live = False
        self._is_full = False
        self._waiting: deque[Event] = deque()
        self._has_news = asyncio.Event()
        self._error: HubError | None = None
        self._task: asyncio.Task[None] | None = None
        # A mistake is found before the hub is asked.
        options_of(start, topics, filter, coalesce)

    # What programs call.

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self.is_stopping:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()
        event = self._waiting.popleft()
        if self._is_full and len(self._waiting) <= _FEW_WAITING:
            self._is_full = False
            self._registry.update(self)
        return event

    # What the client calls.

    def run(self, handler: Callable[[Event], Awaitable[object]]) -> None:
        """Handles the events one after the other."""
        self._task = asyncio.get_running_loop().create_task(self._handle(handler), name=f"event-hub watcher {self.topic}")

    async def _handle(self, handler: Callable[[Event], Awaitable[object]]) -> None:
        try:
            async for event in self:
                try:
                    await handler(event)
                except Exception as error:
                    log.log(logging.ERROR, "the watcher of %s failed for event %s", event.topic, event.id, exc_info=error)
        except HubError:
            # Logged, and told by `wait_closed`.
            pass

    async def cancel_handlers(self) -> None:
        """Ends the handler that still runs when the client closes."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # What the registry calls.

    @property
    def wanted(self) -> Presence:
        if self.is_stopping:
            return None
        return "paused" if self.is_paused or self._is_full else "active"

    def request(self) -> str:
        start = self._start if self._last_seq is None else AfterSeq(self._last_seq)
        options = options_of(start, self._topics, self._filter, self._coalesce)
        wire = {name: value for name, value in options.items() if value is not None}
        return fields_of({"op": "SUBSCRIBE", "topic": self.topic, "opts": {**wire, "batch": True}})

    def subscribed(self, answer: Answer) -> None:
        # All states come anew, or all that is behind the last event.
        is_whole = self._last_seq is not None or (self._coalesce is True and self._start == "earliest")
        if self._was_live and not is_whole:
            self._lag(Lagged(self.topic))
        self.is_live = self._was_live = True
        self._accept()

    def down(self) -> None:
        self.is_live = False

    def deliver(self, frame: Mapping[str, Any]) -> None:
        # Before the OK events are on their way to the watcher of this name that was here before.
        if not self.is_live or self.is_stopping:
            return
        if frame["op"] == "LAGGED":
            return self._lag(Lagged(frame.get("of") or self.topic, frame["missed"]))
        for part in frame["events"] if frame["op"] == "EVENTS" else [frame]:
            event = event_of(part["event"])
            if not self._is_wide:
                self._last_seq = event.seq
            self._waiting.append(event)
        self._has_news.set()
        if not self._is_full and len(self._waiting) >= _MOST_WAITING:
            self._is_full = True
            self._registry.update(self)

    def _lag(self, lagged: Lagged) -> None:
        if self._on_lagged is None:
            log.warning("events of %s were missed: %s", lagged.topic, lagged.missed or "how many is not known")
            return
        try:
            self._on_lagged(lagged)
        except Exception:
            log.exception("on_lagged failed")

    def stop(self) -> None:
        self.end(None)

    def end(self, error: HubError | None) -> None:
        if self.is_stopping:
            return
        self.is_stopping = True
        self.is_live = False
        self._error = error
        if error is None:
            self._waiting.clear()
        self._registry.remove(self)
        self._has_news.set()
        self._conclude(error)
