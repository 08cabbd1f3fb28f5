"""A member of a group: leases events, has them handled, and settles them, over however many connections."""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .alarm import now
from .connection import Connection
from .errors import BadRequestError, ClosedError, HubError, UnknownIdError
from .frames import Answer, fields_of
from .ids import new_member
from .lease import Lease, Leases, Outcome
from .model import Event, Filter, Start, event_of
from .registry import Presence, Registry, Subscriber, options_of
from .settler import Settler

_BATCH_SIZE = 100
#: A handled id is remembered for so long, at least, unless very many follow it.
_REMEMBER = 60.0
_REMEMBERED_IDS = 65_536

ACK = Outcome("ACK")
RETURN = Outcome("RETURN")


@dataclass(frozen=True)
class GroupOptions:
    """The options of a subscription with a group. Times are in seconds. What is left out has the default of the hub or of the group."""

    #: Where a *new* group begins: ``"latest"``, ``"earliest"``, ``AtTime``, ``AfterId`` or ``AfterSeq``.
    start: Start | None = None
    #: A list of topics; then the topic of the subscription is a label for them.
    topics: Sequence[str] | None = None
    #: Of the group: what does not match is settled without delivery.
    filter: Filter | None = None
    #: Of the group: one event of a key at a time, in order.
    ordering: Literal["none", "key"] | None = None
    #: Of the group: skip what a newer event of the same key has overtaken.
    coalesce: bool | None = None
    #: Of the group: failures before an event becomes a dead letter.
    max_attempts: int | None = None
    #: Events that the hub leases to this member at once.
    max_in_flight: int | None = None
    #: Seconds to settle an event.
    ack_timeout: float | None = None
    #: How long that time is put off without being asked; 0: never.
    extend_for: float = 600.0


class _Recent:
    """Ids that were handled a short while ago, and under which epoch. Two generations: forgetting costs nothing per id."""

    def __init__(self) -> None:
        self._young: dict[tuple[str, str], int] = {}
        self._old: dict[tuple[str, str], int] = {}
        self._began = now()

    def _turn(self) -> None:
        age = now() - self._began
        if age >= _REMEMBER or len(self._young) >= _REMEMBERED_IDS:
            self._old = self._young if age < 2 * _REMEMBER else {}
            self._young = {}
            self._began = now()

    def add(self, event: Event, epoch: int) -> None:
        self._turn()
        self._young[event.topic, event.id] = epoch

    def has(self, event: Event, epoch: int) -> bool:
        self._turn()
        key = (event.topic, event.id)
        return self._young.get(key, self._old.get(key, -1)) >= epoch


class GroupSubscription(Subscriber):
    """See the module. Subclasses say how deliveries are handled."""

    group: str

    def __init__(
        self,
        connection: Connection,
        registry: Registry,
        topic: str,
        group: str,
        options: GroupOptions,
        *,
        concurrency: float,
        max_in_flight: int,
    ) -> None:
        super().__init__(registry, topic, group)
        if max_in_flight < 1:
            raise BadRequestError(f"max_in_flight is {max_in_flight}; 1 or more is allowed")
        self._connection = connection
        self._options = options
        self._concurrency = concurrency
        self._max_in_flight = max_in_flight
        self._name = {"topic": topic, "group": group}
        self._member = new_member()
        self._recent = _Recent()
        self._was_live = False
        #: Nothing runs and everything is confirmed: only the UNSUBSCRIBE is left.
        self._is_drained = False
        self._is_ended = False
        self._leases = Leases(
            connection,
            self._name,
            extend_for=options.extend_for,
            is_live=lambda: self.is_live,
            dropped=self._check_drained,
        )
        self._settler = Settler(connection, self._name, is_live=lambda: self.is_live, confirmed=self._confirmed)
        #: Deliveries that may start, and those that wait for an earlier one of their key.
        self._ready: deque[Lease] = deque()
        self._behind: dict[tuple[str, str], deque[Lease]] = {}
        self._running = 0
        self._is_pumping = False
        # A mistake is found before the hub is asked.
        self._wire_options()

    # What subclasses say.

    @abc.abstractmethod
    def _wants(self) -> bool:
        """Whether one more delivery is wanted now."""

    @abc.abstractmethod
    def _work(self, lease: Lease) -> None:
        """Works on a delivery, and says what came of it by ``_done``."""

    def _on_stopping(self) -> None:
        """No more deliveries will be started."""

    def _on_ended(self, error: HubError | None) -> None: ...

    # What programs call.

    async def unsubscribe(self) -> None:
        """Ends the subscription: starts no more handlers, lets running ones finish, and gives back the rest without a failure.

        It does not wait for handlers that run; ``wait_closed`` does. The group stays, with its place.
        """
        self.stop()
        if self._running == 0:
            await self.wait_closed()

    def resume(self) -> None:
        super().resume()
        self._pump()

    async def extend(self, ids: Sequence[str], seconds: float) -> float:
        """Puts off the deadlines of events that are held here. Returns the least time that is left, in seconds."""
        held = []
        for id in ids:
            lease = self._leases.get(id)
            if lease is None:
                raise UnknownIdError(f"event {id} is not held by this subscription", id=id)
            held.append(lease)
        return min([await self._leases.extend(lease, seconds) for lease in held], default=math.inf)

    # Deliveries.

    def deliver(self, frame: Mapping[str, Any]) -> None:
        for part in frame["events"] if frame["op"] == "EVENTS" else [frame]:
            if part.get("ctx") is not None:
                self._receive(event_of(part["event"]), part["ctx"])
        self._pump()

    def _receive(self, event: Event, ctx: Mapping[str, Any]) -> None:
        time = now()
        deadline = time + ctx["ack_deadline_ms"] / 1000
        attempt, epoch = ctx["attempt"], ctx.get("epoch") or 0
        before = self._leases.get(event.id)
        if before is not None and before.event.topic != event.topic:
            before = None
        if before is not None and before.stage != "settling":
            # The handler that runs, or waits, takes over the delivery.
            before.attempt, before.epoch, before.deadline = attempt, epoch, deadline
            before.is_orphan = before.is_adopted = False
            before.lost = None
            return
        lease = Lease(event, attempt, ctx["maxAttempts"], epoch, time, deadline)
        if before is not None:
            lease.confirmed, before.confirmed = before.confirmed, None
        self._leases.add(lease)
        if self._recent.has(event, epoch):
            # Handled here already; its ack was lost.
            return self._settle(lease, ACK)
        # It has come back: what was said of it has arrived.
        lease.confirm(True)
        if not self.is_stopping:
            self._enqueue(lease)
        elif self._connection.has("return"):
            self._settle(lease, RETURN)
        else:
            self._leases.remove(lease)

    def _key_of(self, lease: Lease) -> tuple[str, str] | None:
        event = lease.event
        return (event.topic, event.key) if self._options.ordering == "key" and event.key is not None else None

    def _enqueue(self, lease: Lease) -> None:
        key = self._key_of(lease)
        if key is None:
            self._ready.append(lease)
        elif key in self._behind:
            self._behind[key].append(lease)
        else:
            self._behind[key] = deque()
            self._ready.append(lease)

    def _release(self, lease: Lease) -> None:
        """The next delivery of the key may start."""
        key = self._key_of(lease)
        if key is None or key not in self._behind:
            return
        if self._behind[key]:
            self._ready.append(self._behind[key].popleft())
        else:
            del self._behind[key]

    def _pump(self) -> None:
        """Starts what may be started."""
        if self._is_pumping:
            return
        self._is_pumping = True
        while self._ready and self._running < self._concurrency and not (self.is_paused or self.is_stopping) and self._wants():
            lease = self._ready.popleft()
            if lease.stage != "queued" or lease.lost is not None:
                self._release(lease)
            elif lease.deadline <= now():
                # Another member may have it by now.
                self._leases.remove(lease)
                self._release(lease)
            else:
                lease.stage = "running"
                self._running += 1
                self._work(lease)
        self._is_pumping = False

    def _done(self, lease: Lease, outcome: Outcome) -> None:
        """A delivery that was started has ended."""
        is_held = self._leases.get(lease.event.id) is lease
        if self._is_ended or not is_held or (lease.lost is not None and outcome.op != "ACK"):
            if lease.lost is not None and outcome.op == "ACK":
                self._recent.add(lease.event, lease.epoch)
            self._leases.remove(lease)
            lease.confirm(False)
        else:
            self._settle(lease, outcome)
        self._running -= 1
        self._release(lease)
        self._pump()
        self._check_drained()

    def _settle(self, lease: Lease, outcome: Outcome) -> None:
        lease.stage = "settling"
        lease.outcome = outcome
        if outcome.op == "ACK":
            self._recent.add(lease.event, lease.epoch)
        self._settler.add(lease)

    def _confirmed(self, lease: Lease, is_unknown: bool) -> None:
        if self._leases.remove(lease):
            lease.confirm(not is_unknown)
            self._check_drained()

    # The life of the subscription.

    @property
    def wanted(self) -> Presence:
        if self._is_ended or self._is_drained:
            return None
        return "paused" if self.is_paused or self.is_stopping else "active"

    def _wire_options(self) -> dict[str, Any]:
        options = self._options
        wire = options_of(options.start, options.topics, options.filter, options.coalesce)
        wire.update(
            ordering=options.ordering,
            maxAttempts=options.max_attempts,
            maxInFlight=self._max_in_flight,
            ackTimeoutMs=None if options.ack_timeout is None else math.ceil(options.ack_timeout * 1000),
            batch=True,
            batchSize=min(_BATCH_SIZE, self._max_in_flight),
            member=self._member,
        )
        return {name: value for name, value in wire.items() if value is not None}

    def request(self) -> str:
        wire = self._wire_options()
        held = self._leases.names()
        if held:
            wire["held"] = held
        return fields_of({"op": "SUBSCRIBE", **self._name, "opts": wire})

    def subscribed(self, answer: Answer) -> None:
        self.is_live = self._was_live = True
        self._leases.adopt(answer.get("held") or ())
        self._settler.restart(lease for lease in self._leases.all() if lease.stage == "settling")
        self._settler.flush()
        self._accept()
        self._check_drained()

    def unsubscribed(self) -> None:
        self.end(None)

    def down(self) -> None:
        # An attempt that failed is not the loss that the grace is counted from.
        if self.is_live:
            self._leases.orphan()
        self.is_live = False
        if self._is_drained:
            # There is nothing left to unsubscribe.
            self.end(None)
        else:
            self._check_drained()

    def flush(self) -> None:
        self._settler.flush()

    def stop(self) -> None:
        if self.is_stopping:
            return
        self.is_stopping = True
        self._on_stopping()
        for lease in self._leases.all():
            if lease.stage != "queued":
                continue
            if self.is_live and self._connection.has("return"):
                self._settle(lease, RETURN)
            else:
                self._leases.remove(lease)
        self._check_drained()
        # Unless that was all, no more events are wanted until it is.
        self._registry.update(self)

    def close(self) -> None:
        why = ClosedError("the client is closing")
        self.stop()
        for lease in self._leases.all():
            if lease.stage == "running":
                lease.stop(why)

    def _check_drained(self) -> None:
        """Once nothing runs and everything is confirmed, the hub is told that it is over."""
        if not self.is_stopping or self._is_ended or self._is_drained or self._running > 0 or len(self._leases) > 0:
            return
        self._is_drained = True
        if not self._registry.update(self):
            self.end(None)

    def end(self, error: HubError | None) -> None:
        if self._is_ended:
            return
        self._settler.flush()
        self._is_ended = self.is_stopping = True
        self.is_live = False
        self._registry.remove(self)
        why = error or ClosedError("the subscription is over")
        for lease in self._leases.all():
            lease.lose(why)
            if lease.stage == "settling":
                lease.confirm(False)
        self._leases.end()
        self._settler.end()
        self._on_ended(error)
        self._conclude(error)
