"""What handlers and loops get: the context of a delivery, and how they say what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from .alarm import now
from .errors import BadRequestError, HubError
from .ids import derived_id
from .lease import Lease, Outcome
from .model import Event, NewEvent, Receipt
from .subscription import ACK, GroupSubscription

#: The hub keeps 4 KiB of a reason.
_REASON_CHARS = 1024
#: Seconds: 12 hours.
_LONGEST_DELAY = 43_200

Publish = Callable[[NewEvent], Awaitable[Receipt]]


def checked_delay(delay: float | None) -> float | None:
    """Refuses what the hub would refuse later, when nobody is there any more to hear of it."""
    if delay is not None and not 0 <= delay <= _LONGEST_DELAY:
        raise BadRequestError(f"delay is {delay!r}; 0 to {_LONGEST_DELAY} seconds are allowed")
    return delay


class Retry(Exception):
    """A handler raises it: the event has failed, and comes again after ``delay`` seconds."""

    def __init__(self, reason: str = "retry", *, delay: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = checked_delay(delay)


class Return(Exception):
    """A handler raises it: the event comes again after ``delay`` seconds, and has not failed. A dependency is down, for instance."""

    def __init__(self, *, delay: float | None = None) -> None:
        super().__init__("return")
        self.delay = checked_delay(delay)


def outcome_of(error: BaseException | None) -> Outcome:
    """What a handler meant that has ended."""
    if error is None:
        return ACK
    if isinstance(error, Return):
        return Outcome("RETURN", error.delay)
    if isinstance(error, Retry):
        return Outcome("NACK", error.delay, error.reason[:_REASON_CHARS])
    if isinstance(error, asyncio.CancelledError):
        return Outcome("RETURN")
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Outcome("NACK", None, reason[:_REASON_CHARS])


class Context:
    """A delivery as a handler sees it. What it says changes when the event comes again while its handler runs."""

    def __init__(self, lease: Lease, subscription: GroupSubscription, publish: Publish) -> None:
        self._lease = lease
        self._subscription = subscription
        self._publish = publish

    @property
    def topic(self) -> str:
        """The subscription's: the event's own topic is ``event.topic``."""
        return self._subscription.topic

    @property
    def group(self) -> str:
        return self._subscription.group

    @property
    def attempt(self) -> int:
        """Counts deliveries, from 1."""
        return self._lease.attempt

    @property
    def max_attempts(self) -> int:
        """Failures before the event becomes a dead letter."""
        return self._lease.max_attempts

    @property
    def epoch(self) -> int:
        """Raised when an operator places the group anew: an event that was handled before is wanted again."""
        return self._lease.epoch

    @property
    def time_left(self) -> float:
        """Seconds until the lease ends, unless it is extended."""
        return max(self._lease.deadline - now(), 0.0)

    @property
    def stopped(self) -> HubError | None:
        """Why the handler should stop: the lease is lost (``lease_lost``), or the client closes (``closed``)."""
        return self._lease.stopped

    def raise_if_stopped(self) -> None:
        if self._lease.stopped is not None:
            raise self._lease.stopped

    async def wait_stopped(self) -> HubError:
        """Returns when the handler should stop."""
        while self._lease.stopped is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._lease.on_stop.append(waiting)
            try:
                await waiting
            finally:
                self._lease.on_stop.remove(waiting)
        return self._lease.stopped

    async def extend(self, seconds: float) -> float:
        """Puts the deadline off to ``seconds`` from now, if that is later. Returns the time left; raises ``LeaseLostError``."""
        return await self._subscription._leases.extend(self._lease, seconds)

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        id: str | None = None,
        ts: int | None = None,
        sid: str | None = None,
        headers: Mapping[str, str] | None = None,
        caused_by: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        order: Literal["key"] | None = None,
        require: Literal["fsync"] | None = None,
    ) -> Receipt:
        """Publishes an event that follows from this one. Takes the options of ``Client.publish``.

        Its id is made of the group, the event and the number of the publish in this run of the handler: however often the handler
        runs, the hub stores it once. So publish in the same order in every run, and the same payloads.
        """
        event = self._lease.event
        number = self._lease.published
        self._lease.published += 1
        if id is None:
            id = derived_id(self.group, event.topic, event.id, number)
        if caused_by is None:
            caused_by = [event.id]
        return await self._publish(NewEvent(topic, payload, key, id, ts, sid, headers, caused_by, tags, order, require))


class Delivery(Context):
    """A delivery of a loop: it is settled by hand.

    ``ack``, ``nack`` and ``give_back`` return whether the hub has confirmed it: ``False`` if the event was no longer held here, so
    that it may come again. They raise nothing but ``BadRequestError``, for a delay beyond 12 hours.
    """

    def __init__(self, event: Event, lease: Lease, subscription: GroupSubscription, publish: Publish) -> None:
        super().__init__(lease, subscription, publish)
        self.event = event

    async def ack(self) -> bool:
        """The event is done."""
        return await self._settle(ACK)

    async def nack(self, *, delay: float | None = None, reason: str | None = None) -> bool:
        """The event has failed, and comes again."""
        return await self._settle(Outcome("NACK", checked_delay(delay), None if reason is None else reason[:_REASON_CHARS]))

    async def give_back(self, *, delay: float | None = None) -> bool:
        """The event comes again, here or elsewhere, and has not failed."""
        return await self._settle(Outcome("RETURN", checked_delay(delay)))

    async def _settle(self, outcome: Outcome) -> bool:
        lease = self._lease
        if lease.stage != "running":
            return False
        confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        lease.confirmed = confirmed
        self._subscription._done(lease, outcome)
        return await confirmed
