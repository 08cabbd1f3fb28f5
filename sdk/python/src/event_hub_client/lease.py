"""The events that the hub has leased to a subscription, and their deadlines."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .alarm import Alarm, now
from .connection import Connection
from .errors import HubError, LeaseLostError
from .frames import Answer, fields_of, refusal_of
from .model import Event

#: The hub keeps the leases of a member whose connection broke for so long (`limits.reconnect_grace`).
RECONNECT_GRACE = 10.0
_IDS_PER_FRAME = 5_000
#: The ids that a SUBSCRIBE may name.
_NAMED_AT_MOST = 10_000

Stage = Literal["queued", "running", "settling"]


@dataclass(frozen=True)
class Outcome:
    """How a delivery ends."""

    op: Literal["ACK", "NACK", "RETURN"]
    delay: float | None = None
    reason: str | None = None


@dataclass(eq=False)
class Lease:
    """An event that is leased to this client."""

    event: Event
    attempt: int
    max_attempts: int
    epoch: int
    #: When it came first, and when the time to settle it is up.
    since: float
    deadline: float
    stage: Stage = "queued"
    #: Came over an earlier connection, and the hub has not said since that it is still held here.
    is_orphan: bool = False
    #: Held since an earlier connection: the hub may have delivered it once more, over the one that was lost.
    is_adopted: bool = False
    #: Why the handler should stop: the lease is lost, or the client closes.
    stopped: HubError | None = None
    #: Why it is not held here any more.
    lost: HubError | None = None
    on_stop: list[asyncio.Future[None]] = field(default_factory=list)
    #: In the stage `settling`.
    outcome: Outcome | None = None
    #: Told whether the hub has confirmed the outcome.
    confirmed: asyncio.Future[bool] | None = None
    #: How many events its handler has published.
    published: int = 0

    def stop(self, why: HubError) -> None:
        """Asks the handler to stop."""
        if self.stopped is None:
            self.stopped = why
        for waiting in self.on_stop:
            if not waiting.done():
                waiting.set_result(None)

    def lose(self, why: HubError) -> None:
        if self.lost is None:
            self.lost = why
        self.stop(why)

    def confirm(self, is_confirmed: bool) -> None:
        if self.confirmed is not None and not self.confirmed.done():
            self.confirmed.set_result(is_confirmed)
        self.confirmed = None


class Leases:
    """The leases of one subscription, over however many connections."""

    def __init__(
        self,
        connection: Connection,
        name: dict[str, str],
        *,
        extend_for: float,
        is_live: Callable[[], bool],
        dropped: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._name = name
        #: How long a lease is extended without being asked; 0: never.
        self._extend_for = extend_for
        self._is_live = is_live
        #: Called after leases were lost.
        self._dropped = dropped
        self._leases: dict[str, Lease] = {}
        self._sweep = Alarm(self._extend_due)
        self._grace = Alarm(self._lose_orphans)
        #: The time to settle an event, as the hub gives it.
        self._time_to_ack = 30.0
        #: Wait for a connection on which something can be extended.
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._leases)

    def all(self) -> list[Lease]:
        return list(self._leases.values())

    def get(self, id: str) -> Lease | None:
        return self._leases.get(id)

    def add(self, lease: Lease) -> None:
        self._leases[lease.event.id] = lease
        self._time_to_ack = max(lease.deadline - now(), 0.001)
        if self._sweep.at == math.inf:
            self._sweep.set(now() + self._time_to_ack / 3)

    def remove(self, lease: Lease) -> bool:
        """Only if it is still this one that has its id."""
        if self._leases.get(lease.event.id) is not lease:
            return False
        del self._leases[lease.event.id]
        return True

    def give_up(self, lease: Lease, why: str) -> None:
        """A handler that runs goes on, and may be adopted if the event comes again; what waits is dropped."""
        lease.lose(LeaseLostError(why, id=lease.event.id))
        if lease.stage != "running":
            self.remove(lease)
            lease.confirm(False)

    async def extend(self, lease: Lease, seconds: float) -> float:
        """Puts off the deadline of a lease. Returns the seconds that are left."""
        while True:
            if lease.lost is not None:
                raise lease.lost
            if self._is_live() and self._connection.can_send(settles=True):
                left = await self._modack([lease], seconds)
                if lease.lost is not None:
                    raise lease.lost
                if left is not None:
                    return left
            else:
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(waiting)
                await waiting

    # Over a lost connection.

    def names(self) -> list[str]:
        """The ids for a SUBSCRIBE. Gives up what cannot be named: the hub takes it back."""
        held = [lease for lease in self._leases.values() if lease.lost is None]
        if len(held) > _NAMED_AT_MOST:
            # Those nearest to their end first.
            held.sort(key=lambda lease: ("settling", "running", "queued").index(lease.stage))
            for lease in held[_NAMED_AT_MOST:]:
                self.give_up(lease, "the connection was lost, and too many events are held to keep this one")
        return [lease.event.id for lease in held[:_NAMED_AT_MOST]]

    def orphan(self) -> None:
        """The connection is gone. Whether the leases are still held is known when the next one is there, or after the grace."""
        for lease in self._leases.values():
            lease.is_orphan = True
        if self._leases:
            self._grace.set(now() + RECONNECT_GRACE)

    def adopt(self, held: Iterable[str]) -> None:
        """The hub has said which are still held. The others were settled, or may come again."""
        ids = set(held)
        for lease in self.all():
            if not lease.is_orphan:
                continue
            lease.is_orphan = lease.event.id not in ids
            lease.is_adopted = not lease.is_orphan
            if lease.is_orphan and lease.stage != "running":
                self.give_up(lease, "the hub does not know the event as held here")
        self._grace.set(now() + RECONNECT_GRACE if self._leases else math.inf)
        self._sweep.set(now() if self._leases else math.inf)
        self._wake()

    def _lose_orphans(self) -> None:
        self._wake()
        for lease in self.all():
            # An ack is kept until it can be said again.
            is_kept = not lease.is_orphan or (lease.stage == "settling" and not self._is_live())
            if not is_kept:
                self.give_up(lease, "the connection was lost, and the event did not come again in time")
        self._dropped()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def end(self) -> None:
        self._sweep.cancel()
        self._grace.cancel()
        self._wake()

    # Deadlines.

    def _extend_due(self) -> None:
        """Extends what is due, and gives up what has run out."""
        time = now()
        due: list[Lease] = []
        following = math.inf
        for lease in self.all():
            if lease.lost is not None:
                continue
            if lease.deadline <= time and not (lease.stage == "settling" and self._is_live()):
                self.give_up(lease, "the time to settle the event is up")
                continue
            if lease.stage == "settling":
                following = min(following, max(lease.deadline, time))
                continue
            may_extend = time - lease.since < self._extend_for
            if may_extend and lease.deadline - time <= self._time_to_ack * 2 / 3:
                due.append(lease)
            following = min(following, time + self._time_to_ack / 3 if may_extend else math.inf, lease.deadline)
        if due and self._is_live():
            for at in range(0, len(due), _IDS_PER_FRAME):
                if self._connection.can_send(settles=True):
                    self._modack(due[at : at + _IDS_PER_FRAME], self._time_to_ack)
        # A deadline that was just put off is not known yet.
        self._sweep.set(max(following, time + min(self._time_to_ack / 10, 1.0)))
        self._dropped()

    def _modack(self, some: Sequence[Lease], seconds: float) -> asyncio.Future[float | None]:
        """Resolves with what the hub says is left, with its refusal, or with nothing if the connection breaks."""
        sent = now()
        ids = [lease.event.id for lease in some]
        result: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()
        # Of those that nobody waits for, a refusal is no news.
        result.add_done_callback(lambda done: done.cancelled() or done.exception())

        def answered(answer: Answer | None) -> None:
            error = None if answer is None else refusal_of(answer)
            if answer is None or (error is not None and error.code != "unknown_id"):
                return _resolve(result, None if error is None else error)
            unknown = set(ids if error is not None else answer.get("unknown") or ())
            for lease in some:
                if lease.event.id not in unknown:
                    lease.deadline = max(lease.deadline, sent + seconds)
                elif lease.stage != "settling":
                    self.give_up(lease, "the hub does not know the event as held here")
            self._dropped()
            _resolve(result, answer.get("ack_deadline_ms", seconds * 1000) / 1000)

        frame: dict[str, Any] = {"op": "MODACK", **self._name, "ids": ids, "extend_ms": max(math.ceil(seconds * 1000), 1)}
        self._connection.ask(fields_of(frame), answered)
        return result


def _resolve(future: asyncio.Future[float | None], result: float | HubError | None) -> None:
    if future.done():
        return
    if isinstance(result, HubError):
        future.set_exception(result)
    else:
        future.set_result(result)
