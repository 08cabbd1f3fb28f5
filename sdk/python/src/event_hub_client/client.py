"""The client: what programs call."""

from __future__ import annotations

import asyncio
import logging
import ssl as ssl_module
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from .connection import Connection, TokenSource
from .consumer import Consumer, LoopSubscription
from .errors import AlreadySubscribedError, BadRequestError, ClosedError, HubError, NotSubscribedError
from .handled import CONCURRENCY, Handler, Subscription
from .model import Event, Filter, Lagged, NewEvent, Receipt, Start, State
from .publisher import Publisher
from .registry import Registry, Subscriber, title_of
from .subscription import GroupOptions, GroupSubscription
from .watch import Watch

log = logging.getLogger("event_hub_client")


class Client:
    """A client of a hub, for programs that use ``asyncio``.

    .. code-block:: python

        async with Client("ws://127.0.0.1:8090/", token) as hub:
            receipt = await hub.publish("orders.created", {"id": 17}, key="order-17")

    It connects when something is asked of it, connects again when the connection breaks, and keeps what has no answer. All its methods
    belong to one event loop. ``event_hub_client.sync.Client`` is for programs without one.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        token: TokenSource = None,
        *,
        max_pending: int = 10_000,
        max_pending_bytes: int = 16 << 20,
        when_full: Literal["wait", "reject"] = "wait",
        publish_timeout: float = 60.0,
        backoff: tuple[float, float] = (0.1, 10.0),
        ssl: ssl_module.SSLContext | None = None,
        on_state: Callable[[State], object] | None = None,
    ) -> None:
        """
        :param urls: Addresses of hubs over one store, tried in turn.
        :param token: A token, or a function that gets one: called before each connection, and before the token ends. It is given the
            refusal of the token before, or ``None``. A function that is not ``async`` runs in a thread.
        :param max_pending: Publishes without an answer, at most.
        :param max_pending_bytes: The length of their JSON, at most.
        :param when_full: What happens to one more: it waits for room, or raises ``QueueFullError``.
        :param publish_timeout: Seconds after which a publish without an answer raises ``UnavailableError``.
        :param backoff: The longest first wait between attempts to connect, and the longest of all, in seconds.
        :param ssl: For ``wss``: certificates to trust, a client certificate.
        :param on_state: Called with every new state.
        """
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        if not self._urls or not all(url.startswith(("ws://", "wss://")) for url in self._urls):
            raise BadRequestError(f"urls are {self._urls!r}; one or more that begin with ws:// or wss:// are needed")
        if max_pending < 1 or max_pending_bytes < 1 or publish_timeout <= 0:
            raise BadRequestError("max_pending, max_pending_bytes and publish_timeout have to be positive")
        if not 0 < backoff[0] <= backoff[1]:
            raise BadRequestError(f"backoff is {backoff!r}; two times are needed, the second not below the first")
        self._on_state = on_state
        self._connection = Connection(self._urls, token, self, backoff=backoff, ssl=ssl)
        self._publisher = Publisher(
            self._connection,
            max_events=max_pending,
            max_chars=max_pending_bytes,
            when_full=when_full,
            timeout=publish_timeout,
            on_empty=self._check_drained,
        )
        self._registry = Registry(self._connection, self._check_drained)
        #: Those who wait for the first connection.
        self._connecting: list[asyncio.Future[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._drained: asyncio.Event | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def state(self) -> State:
        """Where the client stands."""
        return self._connection.state

    async def connect(self) -> None:
        """Returns when there is a connection; raises if the first attempt fails. Nothing needs it: what follows connects by itself."""
        self._check_open()
        if self.state.name == "ready":
            return
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connecting.append(connected)
        self._connection.start()
        await connected

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
        """Publishes an event. Returns when the hub has stored it.

        Over lost connections it is sent again with the same id, so that it is stored once. Raises ``UnavailableError`` if it is not known
        in time whether it is stored.

        :param key: The entity that it is about: order, compaction.
        :param id: A UUID. A topic stores an id once; left out, a new one is made.
        :param order: ``"key"``: later publishes of this topic and key that say so, too, are stored after this one, also if the hub refuses
            it for a while. Without it only what the hub takes at the first attempt keeps its order.
        :param require: ``"fsync"``: raises ``NotDurableError`` if the event would not survive a power loss. It is stored all the same.
        """
        return await self._publish_open(NewEvent(topic, payload, key, id, ts, sid, headers, caused_by, tags, order, require))

    async def publish_batch(self, events: Sequence[NewEvent]) -> list[Receipt | HubError]:
        """Publishes several events. Each has a result of its own, in their order: a receipt, or an error."""
        self._check_open()
        results = await asyncio.gather(*map(self._publish, events), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, HubError):
                raise result
        return results  # type: ignore[return-value]

    async def subscribe(
        self,
        topic: str,
        group: str,
        handler: Handler,
        *,
        concurrency: int = CONCURRENCY,
        start: Start | None = None,
        topics: Sequence[str] | None = None,
        filter: Filter | None = None,
        ordering: Literal["none", "key"] | None = None,
        coalesce: bool | None = None,
        max_attempts: int | None = None,
        max_in_flight: int | None = None,
        ack_timeout: float | None = None,
        extend_for: float = 600.0,
    ) -> Subscription:
        """Handles the events of a topic or pattern as a member of a group. Returns when the hub has accepted the subscription.

        ``handler(event, ctx)`` is ``async``. If it returns, the event is acked; if it raises, the event comes again. See ``Retry`` and
        ``Return``. The other options are those of ``GroupOptions``.
        """
        options = GroupOptions(start, topics, filter, ordering, coalesce, max_attempts, max_in_flight, ack_timeout, extend_for)
        await self._wait_until_free(topic, group)
        subscription = Subscription(self._connection, self._registry, topic, group, handler, options, concurrency, self._publish)
        self._begin(subscription)
        await self._opened(subscription)
        return subscription

    def consume(
        self,
        topic: str,
        group: str,
        *,
        start: Start | None = None,
        topics: Sequence[str] | None = None,
        filter: Filter | None = None,
        ordering: Literal["none", "key"] | None = None,
        coalesce: bool | None = None,
        max_attempts: int | None = None,
        max_in_flight: int | None = None,
        ack_timeout: float | None = None,
        extend_for: float = 600.0,
    ) -> Consumer:
        """Deliveries of a group one by one, settled by hand: ``async with hub.consume(…) as jobs: async for job in jobs: …``."""
        options = GroupOptions(start, topics, filter, ordering, coalesce, max_attempts, max_in_flight, ack_timeout, extend_for)

        async def begin() -> LoopSubscription:
            await self._wait_until_free(topic, group)
            loop = LoopSubscription(self._connection, self._registry, topic, group, options, self._publish)
            self._begin(loop)
            await self._opened(loop)
            return loop

        return Consumer(begin)

    async def watch(
        self,
        topic: str,
        handler: Callable[[Event], Awaitable[object]] | None = None,
        *,
        start: Start | None = None,
        topics: Sequence[str] | None = None,
        filter: Filter | None = None,
        coalesce: bool | None = None,
        on_lagged: Callable[[Lagged], object] | None = None,
    ) -> Watch:
        """Reads a topic, a pattern or a list without a group. Every reader gets every event; nothing is settled.

        With a handler, events are handled one after the other. Without one, the result is an asynchronous iterator of events. Returns when
        the hub has accepted the subscription.

        :param coalesce: The newest event of each key. With ``start="earliest"``: the newest state of every key, then live.
        :param on_lagged: Called when events were missed. Otherwise that is logged.
        """
        self._check_open()
        self._check_free(topic, None)
        watch = Watch(self._registry, topic, start=start, topics=topics, filter=filter, coalesce=coalesce, on_lagged=on_lagged)
        self._begin(watch)
        await self._opened(watch)
        if handler is not None:
            watch.run(handler)
        return watch

    async def extend(self, topic: str, group: str, ids: Sequence[str], seconds: float) -> float:
        """Puts off the deadlines of events that a subscription holds, from outside of its handlers. Returns the least time left."""
        return await self._find(topic, group).extend(ids, seconds)

    async def close(self, timeout: float = 5.0) -> None:
        """Ends the client for good.

        Starts no more handlers, and waits up to ``timeout`` seconds for those that run, for their acks, and for publishes without an
        answer. What was not started is given back without a failure. Handlers that still run then are cancelled.
        """
        if self.state.name == "closed":
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout), name="event-hub close")
        await asyncio.shield(self._closing)

    async def _close(self, timeout: float) -> None:
        drained = self._drained = asyncio.Event()
        subscribers = self._registry.all()
        for subscriber in subscribers:
            subscriber.close()
        self._check_drained()
        if timeout > 0 and self.state.name != "closed":
            try:
                await asyncio.wait_for(drained.wait(), timeout)
            except asyncio.TimeoutError:
                pass
        for subscriber in subscribers:
            subscriber.end(None)
            if isinstance(subscriber, (Subscription, Watch)):
                await subscriber.cancel_handlers()
        self._publisher.end(ClosedError("the client is closed"))
        await self._connection.close()

    # What the parts use.

    async def _publish_open(self, event: NewEvent) -> Receipt:
        self._check_open()
        return await self._publish(event)

    async def _publish(self, event: NewEvent) -> Receipt:
        # Handlers that run may publish until they end, also while the client closes.
        if self.state.name == "closed":
            raise self._closed_error()
        self._connection.start()
        return await self._publisher.publish(event)

    def _find(self, topic: str, group: str) -> GroupSubscription:
        subscriber = self._registry.get(topic, group)
        if not isinstance(subscriber, GroupSubscription):
            raise NotSubscribedError(f"this client has no subscription of {title_of(topic, group)}")
        return subscriber

    async def _wait_until_free(self, topic: str, group: str) -> None:
        """One that was unsubscribed may still have handlers that run."""
        self._check_open()
        before = self._registry.get(topic, group)
        if before is not None and before.is_stopping:
            await before.wait_closed()
        self._check_open()
        self._check_free(topic, group)

    def _check_free(self, topic: str, group: str | None) -> None:
        if self._registry.get(topic, group) is not None:
            title = title_of(topic, group)
            raise AlreadySubscribedError(f"this client has a subscription of {title}; unsubscribe first, or use another client")

    def _begin(self, subscriber: Subscriber) -> None:
        self._registry.add(subscriber)
        self._connection.start()

    @staticmethod
    async def _opened(subscriber: Subscriber) -> None:
        try:
            await subscriber.wait_opened()
        except asyncio.CancelledError:
            subscriber.stop()
            raise

    def _check_open(self) -> None:
        if self._closing is not None or self.state.name == "closed":
            raise self._closed_error()

    def _closed_error(self) -> HubError:
        error = self.state.error
        if isinstance(error, HubError):
            return error
        return ClosedError("the client is closed; make another one")

    def _check_drained(self) -> None:
        if self._drained is not None and len(self._registry) == 0 and self._publisher.pending == 0:
            self._drained.set()

    def _finish_connecting(self, error: HubError | None) -> None:
        waiting, self._connecting = self._connecting, []
        for connected in waiting:
            if connected.done():
                continue
            if error is None:
                connected.set_result(None)
            else:
                connected.set_exception(error)

    # What the connection tells.

    def on_state(self, state: State) -> None:
        if self._on_state is not None:
            try:
                self._on_state(state)
            except Exception:
                log.exception("on_state failed")

    def on_ready(self, is_new: bool) -> None:
        self._registry.resume(is_new)
        self._publisher.flush()
        self._finish_connecting(None)

    def on_down(self) -> None:
        self._registry.down()

    def on_too_large(self) -> None:
        self._publisher.too_large()

    def on_frame(self, frame: dict[str, Any]) -> None:
        subscriber = self._registry.get(frame["topic"], frame.get("group"))
        if subscriber is not None:
            subscriber.deliver(frame)

    def on_subscription_ended(self, topic: str, group: str | None, error: HubError) -> None:
        self._registry.ended(topic, group, error)

    def on_failed(self, error: HubError) -> None:
        self._finish_connecting(error)
        if len(self._registry) == 0 and self._publisher.pending == 0:
            self._connection.rest()

    def on_ended(self, error: HubError | None) -> None:
        why = error or ClosedError("the client is closed; make another one")
        self._publisher.end(why)
        for subscriber in self._registry.all():
            subscriber.end(error)
        self._registry.end()
        self._finish_connecting(why)
        if error is not None:
            log.error("the client ended: %s", error)
        if self._drained is not None:
            self._drained.set()
