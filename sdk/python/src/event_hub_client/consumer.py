"""A subscription as an asynchronous iterator: deliveries one by one, settled by hand."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType

from .connection import Connection
from .delivery import Delivery, Publish
from .errors import HubError
from .lease import Lease
from .registry import Registry
from .subscription import RETURN, GroupOptions, GroupSubscription

_MAX_IN_FLIGHT = 64


class LoopSubscription(GroupSubscription):
    """The subscription behind a :class:`Consumer`."""

    def __init__(self, connection: Connection, registry: Registry, topic: str, group: str, options: GroupOptions, publish: Publish) -> None:
        super().__init__(
            connection,
            registry,
            topic,
            group,
            options,
            concurrency=math.inf,
            max_in_flight=options.max_in_flight or _MAX_IN_FLIGHT,
        )
        self._publish = publish
        self._pulls: deque[asyncio.Future[Delivery | None]] = deque()
        self._unsettled: dict[Lease, None] = {}
        self._error: HubError | None = None

    def _wants(self) -> bool:
        while self._pulls and self._pulls[0].done():
            self._pulls.popleft()
        return bool(self._pulls)

    def _work(self, lease: Lease) -> None:
        self._unsettled[lease] = None
        self._pulls.popleft().set_result(Delivery(lease.event, lease, self, self._publish))

    def _done(self, lease: Lease, outcome: object) -> None:
        self._unsettled.pop(lease, None)
        super()._done(lease, outcome)  # type: ignore[arg-type]

    def _on_stopping(self) -> None:
        self._finish()

    def _on_ended(self, error: HubError | None) -> None:
        self._error = error
        self._finish()

    def _finish(self) -> None:
        while self._pulls:
            pull = self._pulls.popleft()
            if not pull.done():
                pull.set_result(None)

    async def pull(self) -> Delivery | None:
        """The next delivery; ``None`` if the loop is over."""
        if not self.is_stopping:
            future: asyncio.Future[Delivery | None] = asyncio.get_running_loop().create_future()
            self._pulls.append(future)
            self._pump()
            try:
                delivery = await future
            except asyncio.CancelledError:
                # It was handed out in the moment of the cancellation: it goes back.
                if future.done() and not future.cancelled() and (lost := future.result()) is not None:
                    self._done(lost._lease, RETURN)
                raise
            if delivery is not None:
                return delivery
        error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    def give_all_back(self) -> None:
        """What was handed out and is not settled goes back, and has not failed."""
        self.stop()
        for lease in list(self._unsettled):
            self._done(lease, RETURN)


class Consumer:
    """Deliveries of a group.

    .. code-block:: python

        async with hub.consume("jobs", "workers") as jobs:
            async for job in jobs:
                await job.ack()

    It subscribes when the first delivery is asked for. At the end of the ``async with`` block what was not settled goes back without
    a failure, and the subscription ends.
    """

    def __init__(self, begin: Callable[[], Awaitable[LoopSubscription]]) -> None:
        self._begin = begin
        self._loop: LoopSubscription | None = None
        self._is_over = False

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> Delivery:
        if self._loop is None and not self._is_over:
            self._loop = await self._begin()
        delivery = None if self._loop is None else await self._loop.pull()
        if delivery is None:
            self._is_over = True
            raise StopAsyncIteration
        return delivery

    async def aclose(self) -> None:
        """Ends the loop."""
        self._is_over = True
        if self._loop is not None:
            self._loop.give_all_back()
            await self._loop.wait_closed()

    def pause(self) -> None:
        """Holds deliveries back until ``resume``."""
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        if self._loop is not None:
            self._loop.resume()
