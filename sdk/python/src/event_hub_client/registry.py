"""The subscriptions of a client, and what the hub was told of them on this connection."""

from __future__ import annotations

import abc
import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

from .alarm import Alarm, now
from .connection import Connection, log
from .errors import BadRequestError, ClosedError, HubError
from .frames import Answer, fields_of, refusal_of
from .model import AfterId, AfterSeq, AtTime, Filter, Start

#: Requests that are not answered: the hub charges each SUBSCRIBE, and refuses a flood of them.
_UNANSWERED = 256
_RETRY = 0.2
_PASSING = frozenset({"rate_limited", "unavailable", "token_expired", "unauthorized"})

#: What the hub has of a subscription on this connection: `None` if it does not have it.
Presence = Union[Literal["active", "paused"], None]


class Subscriber(abc.ABC):
    """Something that is subscribed on every connection anew."""

    def __init__(self, registry: Registry, topic: str, group: str | None) -> None:
        self._registry = registry
        self.topic = topic
        self.group = group
        #: The hub has accepted the subscription on this connection.
        self.is_live = False
        #: No more deliveries are started.
        self.is_stopping = False
        #: The program has paused it.
        self.is_paused = False
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._closed: asyncio.Future[HubError | None] = loop.create_future()

    # What programs call.

    async def wait_closed(self) -> HubError | None:
        """Returns when the subscription is over: with the error that ended it, if there was one."""
        return await asyncio.shield(self._closed)

    async def wait_opened(self) -> None:
        """Returns when the hub has accepted the subscription; raises if it refuses."""
        await asyncio.shield(self._opened)

    def pause(self) -> None:
        """Starts nothing more until ``resume``. Holds over reconnects."""
        self.is_paused = True
        self._registry.update(self)

    def resume(self) -> None:
        self.is_paused = False
        self._registry.update(self)

    async def unsubscribe(self) -> None:
        """Ends the subscription. A group stays, with its place."""
        self.stop()
        await self.wait_closed()

    # What the registry and the client call.

    @property
    @abc.abstractmethod
    def wanted(self) -> Presence:
        """What the hub should have. The registry tells the hub as soon as it can, and again if the hub refuses for a while."""

    @abc.abstractmethod
    def request(self) -> str:
        """The SUBSCRIBE, as its fields."""

    @abc.abstractmethod
    def subscribed(self, answer: Answer) -> None: ...

    @abc.abstractmethod
    def deliver(self, frame: Mapping[str, Any]) -> None: ...

    @abc.abstractmethod
    def stop(self) -> None:
        """Starts nothing more, and ends once everything is settled."""

    @abc.abstractmethod
    def down(self) -> None:
        """The connection is lost, or the hub refuses the SUBSCRIBE for a while."""

    @abc.abstractmethod
    def end(self, error: HubError | None) -> None:
        """It is over, now."""

    def unsubscribed(self) -> None:
        """The hub has taken the UNSUBSCRIBE."""

    def flush(self) -> None:
        """More may be sent than before."""

    def close(self) -> None:
        """The client closes."""
        self.stop()

    def _accept(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _conclude(self, error: HubError | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(error or ClosedError("the subscription is over"))
        elif error is not None:
            log.error("the subscription of %s ended: %s", title_of(self.topic, self.group), error)
        if not self._closed.done():
            self._closed.set_result(error)


def title_of(topic: str, group: str | None) -> str:
    """The name of a subscription in texts."""
    return f'"{topic}"' if group is None else f'"{topic}" by "{group}"'


class Registry:
    """See the module."""

    def __init__(self, connection: Connection, on_removed: Callable[[], None]) -> None:
        self._connection = connection
        self._on_removed = on_removed
        self._subscribers: dict[tuple[str, str | None], Subscriber] = {}
        #: What the hub was told on this connection. Has subscribers that are removed and still to be unsubscribed.
        self._told: dict[Subscriber, Literal["active", "paused"]] = {}
        #: What the hub is to be told, in this order: an UNSUBSCRIBE goes before the next SUBSCRIBE of its name.
        self._todo: deque[Subscriber] = deque()
        self._unanswered = 0
        self._connections = 0
        self._not_before = 0.0
        self._retry = Alarm(self._pump)

    def __len__(self) -> int:
        return len(self._subscribers)

    def all(self) -> list[Subscriber]:
        return list(self._subscribers.values())

    def get(self, topic: str, group: str | None) -> Subscriber | None:
        return self._subscribers.get((topic, group))

    def _is_in(self, subscriber: Subscriber) -> bool:
        return self.get(subscriber.topic, subscriber.group) is subscriber

    def add(self, subscriber: Subscriber) -> None:
        self._subscribers[subscriber.topic, subscriber.group] = subscriber
        if self._connection.state.name == "ready":
            self._todo.append(subscriber)
            self._pump()

    def update(self, subscriber: Subscriber) -> bool:
        """Tells the hub what the subscriber wants now. Returns whether the hub has the subscription, as far as it was told."""
        is_told = subscriber in self._told
        if is_told:
            self._todo.append(subscriber)
            self._pump()
        return is_told

    def remove(self, subscriber: Subscriber) -> None:
        if self._is_in(subscriber):
            del self._subscribers[subscriber.topic, subscriber.group]
        self.update(subscriber)
        self._on_removed()

    def resume(self, is_new: bool) -> None:
        """Subscribes what is not subscribed on this connection; on a new one, everything."""
        if is_new:
            self._not_before = 0.0
            self._todo = deque(self.all())
        self._pump()
        for subscriber in self.all():
            subscriber.flush()

    def down(self) -> None:
        """The connection is lost, and with it all subscriptions of the hub."""
        self._connections += 1
        self._unanswered = 0
        self._told.clear()
        self._todo.clear()
        for subscriber in self.all():
            subscriber.down()

    def ended(self, topic: str, group: str | None, error: HubError) -> None:
        """The hub has ended a subscription."""
        subscriber = self.get(topic, group)
        # Before its OK the error is about the subscription of this name that was here before.
        if subscriber is not None and subscriber.is_live:
            self._told.pop(subscriber, None)
            subscriber.end(error)

    def end(self) -> None:
        self._retry.cancel()

    def _pump(self) -> None:
        while self._todo:
            if now() < self._not_before:
                return self._retry.set(self._not_before)
            if not self._send(self._todo[0]):
                return
            self._todo.popleft()

    def _send(self, subscriber: Subscriber) -> bool:
        """Sends what brings the hub to what is wanted; false if that has to wait."""
        while True:
            before, wanted = self._told.get(subscriber), subscriber.wanted
            if before == wanted:
                return True
            if self._unanswered >= _UNANSWERED or not self._connection.can_send():
                return False
            following: Presence = "active" if before is None else wanted
            if before is None:
                request = subscriber.request()
            else:
                op = {"paused": "PAUSE", "active": "RESUME", None: "UNSUBSCRIBE"}[wanted]
                request = fields_of({"op": op, "topic": subscriber.topic, "group": subscriber.group})
            self._ask(subscriber, request, before, following)

    def _tell(self, subscriber: Subscriber, presence: Presence) -> None:
        if presence is None:
            self._told.pop(subscriber, None)
        else:
            self._told[subscriber] = presence

    def _ask(self, subscriber: Subscriber, request: str, before: Presence, following: Presence) -> None:
        own = self._connections
        self._unanswered += 1
        self._tell(subscriber, following)

        def answered(answer: Answer | None) -> None:
            if answer is None or own != self._connections:
                return
            self._unanswered -= 1
            error = refusal_of(answer)
            is_subscribe = before is None
            if error is not None and self._is_passing(error, subscriber):
                self._not_before = max(self._not_before, now() + (error.retry_after or _RETRY))
                # A later request may have changed it since; but none counts without the SUBSCRIBE.
                if is_subscribe or self._told.get(subscriber) == following:
                    self._tell(subscriber, before)
                self._todo.append(subscriber)
                if is_subscribe:
                    subscriber.down()
            elif is_subscribe and error is not None:
                self._told.pop(subscriber, None)
                subscriber.end(error)
            elif is_subscribe and self._is_in(subscriber):
                subscriber.subscribed(answer)
            elif following is None:
                subscriber.unsubscribed()
            self._pump()

        self._connection.ask(request, answered)

    def _is_passing(self, error: HubError, subscriber: Subscriber) -> bool:
        """Whether the same request may be taken later."""
        if error.code in _PASSING:
            return True
        # The UNSUBSCRIBE of the one before was refused for a while.
        name = (subscriber.topic, subscriber.group)
        others = (other for other in self._told if other is not subscriber)
        return error.code == "already_subscribed" and any((other.topic, other.group) == name for other in others)


def options_of(
    start: Start | None,
    topics: Sequence[str] | None,
    filter: Filter | None,
    coalesce: bool | None,
) -> dict[str, Any]:
    """The options that both kinds of subscriptions have, as the hub wants them."""
    options: dict[str, Any] = {"topics": None if topics is None else list(topics), "coalesce": coalesce}
    if filter is not None:
        parts = {"tags": filter.get("tags"), "key": filter.get("key"), "headers": filter.get("headers")}
        options["filter"] = {name: part for name, part in parts.items() if part is not None}
        if parts["tags"] is not None:
            options["filter"]["tags"] = list(filter["tags"])
    if isinstance(start, AtTime):
        options.update({"from": "ts", "ts": start.ts})
    elif isinstance(start, AfterId):
        options.update({"from": "afterId", "afterId": start.id})
    elif isinstance(start, AfterSeq):
        options.update({"from": "afterSeq", "afterSeq": start.seq})
    elif start is None or start in ("latest", "earliest"):
        options["from"] = start
    else:
        raise BadRequestError(f'start is {start!r}; it must be "latest", "earliest", AtTime, AfterId or AfterSeq')
    return options
