"""The publish queue: events wait here until the hub has decided on them.

They are sent in batches, in the order of the calls, and after a lost connection again in that order, with the same ids and the same
text. What the hub refuses for a while is sent again later.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from .alarm import Alarm, now
from .connection import Connection
from .errors import BadRequestError, HubError, NotDurableError, QueueFullError, TooLargeError, UnavailableError, error_of
from .frames import Answer, encode, refusal_of
from .ids import new_id, parse_id
from .model import NewEvent, Receipt, receipt_of

#: The largest batch.
_BATCH_EVENTS = 256
_BATCH_CHARS = 256 << 10
_LEAST_BATCH_CHARS = 8 << 10
#: What may be on its way without an answer.
_WINDOW_EVENTS = 4096
_WINDOW_CHARS = 4 << 20
#: Seconds to wait after `unavailable`: doubled each time, up to the longest.
_FIRST_RETRY = 0.05
_LONGEST_RETRY = 5.0

_PASSING = frozenset({"rate_limited", "unavailable", "token_expired", "unauthorized"})


class Entry:
    """A publish that is not settled yet."""

    __slots__ = ("chain", "deadline", "id", "is_admitted", "is_alone", "number", "require", "result", "text", "topic")

    def __init__(self, number: int, id: str, text: str, event: NewEvent, deadline: float) -> None:
        #: Rises from publish to publish.
        self.number = number
        self.id = id
        self.topic = event.topic
        #: The fields of the event as they are sent, each time the same.
        self.text = text
        #: Under ``order="key"``: the topic and the key.
        self.chain = (event.topic, event.key or "") if event.order == "key" else None
        self.deadline = deadline
        self.require = event.require
        self.result: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        #: Sent in a frame of its own, because a batch with it was refused.
        self.is_alone = False
        #: Counted in what is open; the others wait for room.
        self.is_admitted = False

    @property
    def is_settled(self) -> bool:
        return self.result.done()

    def settle(self, result: Receipt | HubError) -> None:
        if self.is_settled:
            return
        if isinstance(result, HubError):
            self.result.set_exception(result)
        elif self.require is not None and result.durable not in ("fsync", "majority"):
            text = f'event {self.id} is stored with durability "{result.durable}", which a power loss may undo'
            self.result.set_exception(NotDurableError(text, id=self.id, receipt=result))
        else:
            self.result.set_result(result)


@dataclass(eq=False)
class _Batch:
    """A PUBLISH on its way."""

    is_ordered: bool
    entries: list[Entry] = field(default_factory=list)
    chars: int = 0


@dataclass
class _Chain:
    """The entries of one topic and key under ``order="key"``."""

    #: Has the first of them.
    batch: _Batch
    #: Come after it was answered.
    behind: list[Entry] = field(default_factory=list)


class Publisher:
    """See the module."""

    def __init__(
        self,
        connection: Connection,
        *,
        max_events: int,
        max_chars: int,
        when_full: Literal["wait", "reject"],
        timeout: float,
        on_empty: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._max_events = max_events
        self._max_chars = max_chars
        self._when_full = when_full
        self._timeout = timeout
        self._on_empty = on_empty
        self._numbers = 0
        #: All that is not settled, oldest first.
        self._open: dict[int, Entry] = {}
        self._events = 0
        self._chars = 0
        #: What waits for room.
        self._overflow: deque[Entry] = deque()
        #: What is to be sent, by number.
        self._queue: deque[Entry] = deque()
        self._on_the_way: set[_Batch] = set()
        self._chains: dict[tuple[str, str], _Chain] = {}
        self._sent_events = 0
        self._sent_chars = 0
        self._batch_events = _BATCH_EVENTS
        self._batch_chars = _BATCH_CHARS
        self._not_before = 0.0
        self._retries = 0
        self._is_flushing = False
        self._retry = Alarm(self.flush)
        self._timeouts = Alarm(self._time_out)

    @property
    def pending(self) -> int:
        """Publishes without an answer."""
        return len(self._open)

    async def publish(self, event: NewEvent) -> Receipt:
        """Resolves with the hub's receipt. If the caller is cancelled, an event that was not sent is not sent any more."""
        entry = self._add(event)
        try:
            return await entry.result
        finally:
            # A caller that was cancelled has cancelled the result.
            if entry.result.cancelled():
                self._forget(entry)

    def _add(self, event: NewEvent) -> Entry:
        id = new_id() if event.id is None else parse_id(event.id)
        if id is None:
            raise BadRequestError(f"id is {event.id!r}; it must be a UUID, or left out")
        text = _text_of(event, id)
        if self._when_full == "reject" and (self._overflow or not self._has_room(text)):
            raise QueueFullError(
                f"{self._events} publishes with {self._chars} characters wait for answers; "
                f"at most {self._max_events} with {self._max_chars} may",
                id=id,
            )
        self._numbers += 1
        entry = Entry(self._numbers, id, text, event, now() + self._timeout)
        self._open[entry.number] = entry
        entry.result.add_done_callback(lambda _: self._finish(entry))
        if len(self._open) == 1:
            self._timeouts.set(entry.deadline)
        if self._overflow or not self._has_room(text):
            self._overflow.append(entry)
        else:
            self._admit(entry)
        return entry

    def _has_room(self, text: str) -> bool:
        return self._events == 0 or (self._events < self._max_events and self._chars + len(text) <= self._max_chars)

    def _admit(self, entry: Entry) -> None:
        entry.is_admitted = True
        self._events += 1
        self._chars += len(entry.text)
        self._queue.append(entry)
        self._flush_soon()

    def _finish(self, entry: Entry) -> None:
        self._open.pop(entry.number, None)
        if entry.is_admitted:
            self._events -= 1
            self._chars -= len(entry.text)
            entry.is_admitted = False
        while self._overflow and (self._overflow[0].is_settled or self._has_room(self._overflow[0].text)):
            following = self._overflow.popleft()
            if not following.is_settled:
                self._admit(following)
        if not self._open:
            self._timeouts.cancel()
            self._on_empty()

    def _forget(self, entry: Entry) -> None:
        """Nobody waits for it any more: it is not sent, unless it was."""
        at = bisect_left(self._queue, entry.number, key=lambda other: other.number)
        if at < len(self._queue) and self._queue[at] is entry:
            del self._queue[at]

    def _time_out(self) -> None:
        time = now()
        for entry in list(self._open.values()):
            if entry.deadline > time:
                return self._timeouts.set(entry.deadline)
            text = f"no answer within {self._timeout:g} s; the event may be stored or not, and it is safe to publish its id again"
            entry.settle(UnavailableError(text, id=entry.id))
            self._forget(entry)

    def end(self, why: HubError) -> None:
        """Refuses everything that is not answered."""
        code = "unavailable" if why.code == "closed" else why.code
        for entry in list(self._open.values()):
            entry.settle(error_of(code, f"{why.message}; the event was not confirmed", id=entry.id))
        self._queue.clear()
        self._timeouts.cancel()
        self._retry.cancel()

    # Sending.

    def _flush_soon(self) -> None:
        """Events that are published in one turn of the loop go in one frame."""
        if not self._is_flushing and self._queue:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._is_flushing = False
        self.flush()

    def flush(self) -> None:
        """Sends what may be sent."""
        if not self._queue or not self._connection.can_send():
            return
        if now() < self._not_before:
            return self._retry.set(self._not_before)
        #: By topic for ordered batches, which stop at the first event that is refused; "" for the others.
        batches: dict[str, _Batch] = {}
        while self._queue:
            entry = self._queue[0]
            length = len(entry.text)
            is_full = self._sent_events >= _WINDOW_EVENTS or self._sent_chars + length > _WINDOW_CHARS
            if is_full and self._sent_events > 0 and not entry.is_settled:
                break
            self._queue.popleft()
            if not entry.is_settled:
                self._put(entry, length, batches)
        for batch in batches.values():
            self._send(batch)

    def _put(self, entry: Entry, length: int, batches: dict[str, _Batch]) -> None:
        """Puts an entry into a batch; sends the batch before if it is full."""
        name = "" if entry.chain is None else entry.topic
        batch = batches.get(name)
        if batch is not None and (len(batch.entries) >= self._batch_events or batch.chars + length > self._batch_chars):
            self._send(batches.pop(name))
            batch = None
        if entry.chain is not None:
            chain = self._chains.get(entry.chain)
            can_join = chain is not None and chain.batch is batch and self._connection.has("ordered") and not entry.is_alone
            if chain is not None and not can_join:
                chain.behind.append(entry)
                return
        into = batch if batch is not None and not entry.is_alone else _Batch(entry.chain is not None)
        if entry.chain is not None and entry.chain not in self._chains:
            self._chains[entry.chain] = _Chain(into)
        into.entries.append(entry)
        into.chars += length
        self._sent_events += 1
        self._sent_chars += length
        if entry.is_alone:
            self._send(into)
        else:
            batches[name] = into

    def _send(self, batch: _Batch) -> None:
        self._on_the_way.add(batch)
        texts = [entry.text for entry in batch.entries]
        if len(texts) == 1:
            fields = texts[0]
        else:
            ordered = '"ordered":true,' if batch.is_ordered and self._connection.has("ordered") else ""
            fields = f'{ordered}"events":[{{{"},{".join(texts)}}}]'
        self._connection.ask(f'"op":"PUBLISH",{fields}', lambda answer: self._answered(batch, answer))

    def _answered(self, batch: _Batch, answer: Answer | None) -> None:
        self._on_the_way.discard(batch)
        self._sent_events -= len(batch.entries)
        self._sent_chars -= batch.chars
        if answer is None:
            again = batch.entries
        elif "code" in answer and len(batch.entries) > 1:
            self._refused_whole(batch.entries, answer)
            again = batch.entries
        else:
            again = self._judge(batch, answer.get("results") or [answer])
        for entry in batch.entries:
            chain = None if entry.chain is None else self._chains.get(entry.chain)
            if entry.chain is not None and chain is not None and chain.batch is batch:
                del self._chains[entry.chain]
                again = again + chain.behind
        self._requeue(again)
        self._flush_soon()

    def _judge(self, batch: _Batch, results: list[dict[str, Any]]) -> list[Entry]:
        """Settles what the hub has decided on; returns the rest."""
        again: list[Entry] = []
        is_behind_refused = False
        for index, entry in enumerate(batch.entries):
            result = results[index] if index < len(results) else {"code": "internal", "msg": "the answer has too few results"}
            error = refusal_of(result)
            if error is None:
                entry.settle(receipt_of(result))
                continue
            # In an ordered batch, what is behind a refused event waits for nothing else.
            is_waiting = batch.is_ordered and is_behind_refused and error.code == "unavailable"
            is_behind_refused = True
            if is_waiting or self._is_passing(error):
                again.append(entry)
            else:
                error.id = entry.id
                entry.settle(error)
        if not again:
            self._retries = 0
            self._batch_events = min(self._batch_events + 1, _BATCH_EVENTS)
        return again

    def _refused_whole(self, entries: list[Entry], answer: Answer) -> None:
        """A batch was not carried out at all. What is wrong with one of its events is found out one by one."""
        error = refusal_of(answer)
        if error is None:
            return
        if not self._is_passing(error):
            for entry in entries:
                entry.is_alone = True
        if error.code in ("rate_limited", "too_large"):
            # Perhaps it does not fit what the rate allows, or what this hub takes in one batch.
            self._batch_events = max(len(entries) >> 1, 1)

    def _is_passing(self, error: HubError) -> bool:
        """Whether the same event may be taken later. Then nothing is sent before that."""
        if error.code not in _PASSING:
            return False
        wait = error.retry_after
        if error.code != "rate_limited" or wait is None:
            wait = min(_FIRST_RETRY * 2.0**self._retries, _LONGEST_RETRY) * (0.5 + random.random() / 2)
            self._retries = min(self._retries + 1, 10)
        self._not_before = max(self._not_before, now() + wait)
        return True

    def _requeue(self, answered: list[Entry]) -> None:
        entries = [entry for entry in answered if not entry.is_settled]
        if entries:
            self._queue = deque(sorted([*entries, *self._queue], key=lambda entry: entry.number))

    def too_large(self) -> None:
        """Before the connection is given up: the hub refused to read a frame because of its size."""
        largest = max(self._on_the_way, key=lambda batch: batch.chars, default=None)
        if largest is None:
            return
        if len(largest.entries) == 1:
            entry = largest.entries[0]
            entry.settle(TooLargeError(f"the hub does not read a frame of {largest.chars} characters", id=entry.id))
            return
        for entry in largest.entries:
            entry.is_alone = True
        self._batch_chars = max(largest.chars >> 1, _LEAST_BATCH_CHARS)


def _text_of(event: NewEvent, id: str) -> str:
    """The fields of an event in a PUBLISH, without braces."""
    opts = {
        "id": id,
        "ts": event.ts,
        "key": event.key,
        "sid": event.sid,
        "headers": None if event.headers is None else dict(event.headers),
        "caused_by": None if event.caused_by is None else list(event.caused_by),
        "tags": None if event.tags is None else list(event.tags),
    }
    opts = {name: value for name, value in opts.items() if value is not None}
    try:
        return f'"topic":{encode(event.topic)},"payload":{encode(event.payload)},"opts":{encode(opts)}'
    except HubError as error:
        error.id = id
        raise
