"""Ids of events, members and of events that follow from others."""

from __future__ import annotations

import secrets
import threading
import time
import uuid

from .frames import encode

#: The namespace of the ids that handlers' publishes get; the same in the TypeScript SDK.
_DERIVED = uuid.UUID("6c1f0a52-7d3e-5b9a-8f46-2e0d9c7b1a35")
_RANDOM_BITS = 74


class IdGenerator:
    """Makes UUIDs of version 7. Each is greater than the ones before, also within a millisecond or when the clock is set back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ms = 0
        self._random = 0

    def next(self) -> str:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._ms:
                self._ms = now
                # One bit is free, so that counting up does not overflow.
                self._random = secrets.randbits(_RANDOM_BITS - 1)
            else:
                self._random += 1 + secrets.randbits(32)
                if self._random >> _RANDOM_BITS:
                    self._ms += 1
                    self._random = secrets.randbits(_RANDOM_BITS - 1)
            ms, random = self._ms, self._random
        high, low = random >> 62, random & ((1 << 62) - 1)
        return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


new_id = IdGenerator().next


def derived_id(group: str, topic: str, event_id: str, number: int) -> str:
    """The id of the ``number``-th event that a handler of ``group`` publishes for an event."""
    return str(uuid.uuid5(_DERIVED, encode([group, topic, event_id, number])))


def new_member() -> str:
    """A UUID that nobody can guess."""
    return str(uuid.uuid4())


def parse_id(text: object) -> str | None:
    """A UUID as the hub writes it; ``None`` if it is none."""
    try:
        return str(uuid.UUID(str(text)))
    except ValueError:
        return None
