"""Events, receipts and positions: values without behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Union

Durability = Literal["fsync", "majority", "interval", "memory"]


@dataclass(frozen=True)
class Event:
    """A record of a topic."""

    id: str
    #: Position in its topic.
    seq: int
    #: Milliseconds since 1970: the hub's clock, unless the publisher gave a time.
    ts: int
    topic: str
    #: JSON as Python has it. Integers are exact, however large.
    payload: Any
    key: str | None = None
    sid: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    caused_by: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class Receipt:
    """The hub has stored an event."""

    id: str
    seq: int
    ts: int
    #: ``fsync`` and ``majority`` survive a power loss, ``interval`` survives ``kill -9``, ``memory`` nothing.
    durable: str
    #: The topic had the id already; nothing was appended.
    duplicate: bool = False


@dataclass(frozen=True)
class NewEvent:
    """An event of a batch. The fields are those of ``Client.publish``."""

    topic: str
    payload: Any
    key: str | None = None
    id: str | None = None
    ts: int | None = None
    sid: str | None = None
    headers: Mapping[str, str] | None = None
    caused_by: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    order: Literal["key"] | None = None
    require: Literal["fsync"] | None = None


@dataclass(frozen=True)
class AtTime:
    """Begin with the first event whose commit time is not before this: milliseconds since 1970."""

    ts: int


@dataclass(frozen=True)
class AfterId:
    """Begin behind the event with this id."""

    id: str


@dataclass(frozen=True)
class AfterSeq:
    """Begin behind this position."""

    seq: int


Start = Union[Literal["latest", "earliest"], AtTime, AfterId, AfterSeq]


class Filter(TypedDict, total=False):
    """All of it has to match."""

    tags: Sequence[str]
    key: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Lagged:
    """A watcher has missed events of a topic. ``missed`` is ``None`` where their number is not known."""

    topic: str
    missed: int | None = None


@dataclass(frozen=True)
class State:
    """Where a client stands."""

    name: Literal["idle", "token", "opening", "authenticating", "ready", "waiting", "closing", "closed"]
    #: Failed attempts in a row.
    tries: int = 0
    #: In the state ``waiting``: seconds from the failure to the next attempt.
    retry_in: float | None = None
    #: ``ready``: the subject of the token, and its end in seconds since 1970.
    sub: str | None = None
    exp: int | None = None
    #: ``ready``: the token has run out and is being renewed.
    is_expired: bool = False
    #: ``waiting``: why the last attempt failed. ``closed``: why, if nobody called ``close``.
    error: Exception | None = None


def event_of(record: Mapping[str, Any]) -> Event:
    """An event as it comes in a frame."""
    return Event(
        id=record["id"],
        seq=record["seq"],
        ts=record["ts"],
        topic=record["topic"],
        payload=record.get("payload"),
        key=record.get("key"),
        sid=record.get("sid"),
        headers=record.get("headers") or {},
        caused_by=record.get("caused_by") or (),
        tags=record.get("tags") or (),
    )


def receipt_of(result: Mapping[str, Any]) -> Receipt:
    """A receipt as it comes in an answer."""
    return Receipt(result["id"], result["seq"], result["ts"], result["durable"], bool(result.get("duplicate")))
