"""Sends the outcomes of deliveries until the hub has confirmed them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Any

from .alarm import Alarm, now
from .connection import Connection, log
from .frames import Answer, fields_of, refusal_of
from .lease import Lease, Outcome

_IDS_PER_FRAME = 200
_RETRY = 0.2
_PASSING = frozenset({"unavailable", "rate_limited", "unauthorized", "token_expired"})


class Settler:
    """See the module."""

    def __init__(
        self,
        connection: Connection,
        name: dict[str, str],
        *,
        is_live: Callable[[], bool],
        confirmed: Callable[[Lease, bool], None],
    ) -> None:
        self._connection = connection
        self._name = name
        #: The hub has accepted the subscription on this connection: before that it knows none of the events.
        self._is_live = is_live
        #: The hub has said what came of the outcome: a lease, and whether it was held here.
        self._confirmed = confirmed
        self._unsent: list[Lease] = []
        self._is_flushing = False
        self._retry = Alarm(self.flush)

    def add(self, lease: Lease) -> None:
        """Outcomes of one turn of the loop go out together."""
        self._unsent.append(lease)
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def restart(self, leases: Iterable[Lease]) -> None:
        """When the hub has accepted the subscription anew: forgets what is on its way, and sends these instead."""
        self._unsent = list(leases)

    def end(self) -> None:
        self._unsent = []
        self._retry.cancel()

    def _flush_now(self) -> None:
        self._is_flushing = False
        self.flush()

    def flush(self) -> None:
        if not self._unsent or not self._is_live() or not self._connection.can_send(settles=True):
            return
        taken, self._unsent = self._unsent, []
        #: Leases that can be named in one frame.
        together: dict[object, list[Lease]] = {}
        for lease in taken:
            outcome = lease.outcome
            if outcome is None:
                continue
            # With a token that has run out an event may still be acked, but not returned.
            if outcome.op == "RETURN" and not self._connection.can_send():
                self._unsent.append(lease)
                continue
            alone = lease.event.id if self._is_single(outcome) else None
            leases = together.setdefault((outcome.op, outcome.delay, lease.attempt, lease.is_adopted, alone), [])
            leases.append(lease)
            if len(leases) == _IDS_PER_FRAME:
                self._send(leases[:])
                leases.clear()
        for leases in together.values():
            if leases:
                self._send(leases)

    def _is_single(self, outcome: Outcome) -> bool:
        """A NACK names one event. A hub without RETURN gets an event back as failed."""
        return outcome.op == "NACK" or (outcome.op == "RETURN" and not self._connection.has("return"))

    def _send(self, leases: list[Lease]) -> None:
        first = leases[0]
        outcome, attempt = first.outcome, first.attempt
        assert outcome is not None
        frame: dict[str, Any] = {"op": outcome.op, **self._name}
        # The hub may count another attempt of an event that was held over a lost connection: then none is named.
        if not first.is_adopted:
            frame["attempt"] = attempt
        if outcome.delay is not None:
            frame["delay_ms"] = math.ceil(outcome.delay * 1000)
        if self._is_single(outcome):
            frame.update(op="NACK", id=first.event.id, reason=outcome.reason)
        else:
            frame["ids"] = [lease.event.id for lease in leases]

        def answered(answer: Answer | None) -> None:
            # The next connection starts with all that is not confirmed.
            if answer is None:
                return
            error = refusal_of(answer)
            if error is not None and error.code in _PASSING:
                self._unsent.extend(leases)
                return self._retry.set(now() + (error.retry_after or _RETRY))
            if error is not None and error.code != "unknown_id":
                log.warning("the hub refuses a %s: %s", outcome.op, error)
            unknown = set(answer.get("unknown") or ())
            for lease in leases:
                # Delivered once more in between: then the outcome was sent again for that delivery.
                if lease.attempt == attempt:
                    self._confirmed(lease, error is not None or lease.event.id in unknown)

        self._connection.ask(fields_of(frame), answered)
