"""A subscription whose deliveries are handled by a function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .connection import Connection, log
from .delivery import Context, Publish, Retry, Return, outcome_of
from .errors import BadRequestError
from .lease import Lease
from .model import Event
from .registry import Registry
from .subscription import RETURN, GroupOptions, GroupSubscription

CONCURRENCY = 16
#: So that the next deliveries are here when handlers end, and other members of the group still get theirs.
_IN_FLIGHT_PER_HANDLER = 4

Handler = Callable[[Event, Context], Awaitable[object]]


class Subscription(GroupSubscription):
    """Handlers run as tasks, at most ``concurrency`` at once."""

    def __init__(
        self,
        connection: Connection,
        registry: Registry,
        topic: str,
        group: str,
        handler: Handler,
        options: GroupOptions,
        concurrency: int,
        publish: Publish,
    ) -> None:
        if concurrency < 1:
            raise BadRequestError(f"concurrency is {concurrency}; 1 or more is allowed")
        in_flight = options.max_in_flight or concurrency * _IN_FLIGHT_PER_HANDLER
        super().__init__(connection, registry, topic, group, options, concurrency=concurrency, max_in_flight=in_flight)
        self._handler = handler
        self._publish = publish
        self._tasks: set[asyncio.Task[None]] = set()

    def _wants(self) -> bool:
        return True

    def _work(self, lease: Lease) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(lease), name=f"event-hub handler {self.topic}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, lease: Lease) -> None:
        failure: BaseException | None = None
        try:
            await self._handler(lease.event, Context(lease, self, self._publish))
        except Exception as error:
            failure = error
        except BaseException:
            # The task is cancelled: the event has not failed.
            self._done(lease, RETURN)
            raise
        if failure is not None and lease.stopped is not None and not isinstance(failure, (Retry, Return)):
            # A handler that stops because it was told to has not failed.
            return self._done(lease, RETURN)
        if failure is not None and not isinstance(failure, (Retry, Return)):
            event = lease.event
            log.warning("the handler of %s failed for event %s (attempt %d)", event.topic, event.id, lease.attempt, exc_info=failure)
        self._done(lease, outcome_of(failure))

    async def cancel_handlers(self) -> None:
        """Ends the handlers that still run when the client closes."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
