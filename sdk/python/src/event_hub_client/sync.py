"""The same client for programs without an event loop.

A background thread runs the loop and the connection. The methods here may be called from any thread, and wait for their result. Handlers
are ordinary functions; they run in threads of their own, at most ``concurrency`` at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl as ssl_module
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import client as aio
from .connection import TokenSource
from .consumer import Consumer as AsyncConsumer
from .delivery import Context as AsyncContext
from .delivery import Delivery as AsyncDelivery
from .errors import ClosedError, HubError
from .handled import CONCURRENCY
from .model import Event, Filter, Lagged, NewEvent, Receipt, Start, State
from .registry import Subscriber
from .watch import Watch as AsyncWatch

__all__ = ["Client", "Consumer", "Context", "Delivery", "Subscription", "Watch"]

_T = TypeVar("_T")


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # A daemon: a program that forgets to close the client can end.
        self._thread = threading.Thread(target=self._run, name="event-hub client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        if self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClosedError("the client is closed; make another one")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this is the thread of the client's event loop, which must not wait for itself")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # An interrupt from the keyboard must not leave the work running.
            future.cancel()
            raise

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


class Context:
    """A delivery as a handler sees it; see :class:`event_hub_client.Context`."""

    def __init__(self, inner: AsyncContext, thread: _LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def attempt(self) -> int:
        return self._inner.attempt

    @property
    def max_attempts(self) -> int:
        return self._inner.max_attempts

    @property
    def epoch(self) -> int:
        return self._inner.epoch

    @property
    def time_left(self) -> float:
        """Seconds until the lease ends, unless it is extended."""
        return max(self._inner._lease.deadline - self._thread.loop.time(), 0.0)

    @property
    def stopped(self) -> HubError | None:
        return self._inner.stopped

    def raise_if_stopped(self) -> None:
        self._inner.raise_if_stopped()

    def extend(self, seconds: float) -> float:
        return self._thread.run(self._inner.extend(seconds))

    def publish(
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
        publishing = self._inner.publish(
            topic,
            payload,
            key=key,
            id=id,
            ts=ts,
            sid=sid,
            headers=headers,
            caused_by=caused_by,
            tags=tags,
            order=order,
            require=require,
        )
        return self._thread.run(publishing)


class Delivery(Context):
    """A delivery of a loop: it is settled by hand; see :class:`event_hub_client.Delivery`."""

    def __init__(self, inner: AsyncDelivery, thread: _LoopThread) -> None:
        super().__init__(inner, thread)
        self._delivery = inner

    @property
    def event(self) -> Event:
        return self._delivery.event

    def ack(self) -> bool:
        return self._thread.run(self._delivery.ack())

    def nack(self, *, delay: float | None = None, reason: str | None = None) -> bool:
        return self._thread.run(self._delivery.nack(delay=delay, reason=reason))

    def give_back(self, *, delay: float | None = None) -> bool:
        return self._thread.run(self._delivery.give_back(delay=delay))


class Subscription:
    """What ``subscribe`` and ``watch`` with a handler return."""

    def __init__(self, inner: Subscriber, thread: _LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    @property
    def topic(self) -> str:
        return self._inner.topic

    @property
    def group(self) -> str | None:
        return self._inner.group

    @property
    def is_paused(self) -> bool:
        return self._inner.is_paused

    def pause(self) -> None:
        """Starts nothing more until ``resume``. Holds over reconnects."""
        self._thread.run(_call(self._inner.pause))

    def resume(self) -> None:
        self._thread.run(_call(self._inner.resume))

    def unsubscribe(self) -> None:
        """Ends the subscription. A group stays, with its place."""
        self._thread.run(self._inner.unsubscribe())

    def wait_closed(self) -> HubError | None:
        """Returns when the subscription is over: with the error that ended it, if there was one."""
        return self._thread.run(self._inner.wait_closed())


class Consumer:
    """Deliveries of a group: ``with hub.consume(…) as jobs: for job in jobs: …``."""

    def __init__(self, inner: AsyncConsumer, thread: _LoopThread) -> None:
        self._inner = inner
        self._thread = thread

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> Delivery:
        delivery = self._thread.run(_next(self._inner))
        if delivery is None:
            raise StopIteration
        return Delivery(delivery, self._thread)

    def close(self) -> None:
        """Ends the loop: what was not settled goes back, without a failure."""
        self._thread.run(self._inner.aclose())


class Watch(Subscription):
    """A reader without a group: an iterator of events."""

    def __init__(self, inner: AsyncWatch, thread: _LoopThread) -> None:
        super().__init__(inner, thread)
        self._watch = inner

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.unsubscribe()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        event = self._thread.run(_next(self._watch))
        if event is None:
            raise StopIteration
        return event


class Client:
    """A client of a hub.

    .. code-block:: python

        with Client("ws://127.0.0.1:8090/", token) as hub:
            receipt = hub.publish("orders.created", {"id": 17}, key="order-17")

    The arguments are those of :class:`event_hub_client.Client`. A program that forks makes its client after that: threads are not
    copied.
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
        # A mistake in the arguments is found before there is a thread.
        self._client = aio.Client(
            urls,
            token,
            max_pending=max_pending,
            max_pending_bytes=max_pending_bytes,
            when_full=when_full,
            publish_timeout=publish_timeout,
            backoff=backoff,
            ssl=ssl,
            on_state=on_state,
        )
        self._thread = _LoopThread()
        self._pools: list[concurrent.futures.ThreadPoolExecutor] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def state(self) -> State:
        """Where the client stands."""
        return self._client.state

    def connect(self) -> None:
        """Returns when there is a connection; raises if the first attempt fails."""
        self._thread.run(self._client.connect())

    def publish(
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
        """Publishes an event. Returns when the hub has stored it. See :meth:`event_hub_client.Client.publish`."""
        event = NewEvent(topic, payload, key, id, ts, sid, headers, caused_by, tags, order, require)
        return self.submit(event).result()

    def submit(self, event: NewEvent) -> concurrent.futures.Future[Receipt]:
        """Publishes an event, and does not wait: ``result()`` of what it returns does. Events are stored in the order of the calls."""
        return self._thread.submit(self._client._publish_open(event))

    def publish_batch(self, events: Sequence[NewEvent]) -> list[Receipt | HubError]:
        """Publishes several events. Each has a result of its own, in their order: a receipt, or an error."""
        return self._thread.run(self._client.publish_batch(events))

    def subscribe(
        self,
        topic: str,
        group: str,
        handler: Callable[[Event, Context], object],
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
        """Handles events in threads as a member of a group. See :meth:`event_hub_client.Client.subscribe`."""
        pool = self._pool(max(concurrency, 1), f"event-hub {topic}")

        async def handle(event: Event, ctx: AsyncContext) -> None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(pool, handler, event, Context(ctx, self._thread))

        subscribing = self._client.subscribe(
            topic,
            group,
            handle,
            concurrency=concurrency,
            start=start,
            topics=topics,
            filter=filter,
            ordering=ordering,
            coalesce=coalesce,
            max_attempts=max_attempts,
            max_in_flight=max_in_flight,
            ack_timeout=ack_timeout,
            extend_for=extend_for,
        )
        return Subscription(self._thread.run(subscribing), self._thread)

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
        """Deliveries of a group one by one, settled by hand. See :meth:`event_hub_client.Client.consume`."""
        consumer = self._client.consume(
            topic,
            group,
            start=start,
            topics=topics,
            filter=filter,
            ordering=ordering,
            coalesce=coalesce,
            max_attempts=max_attempts,
            max_in_flight=max_in_flight,
            ack_timeout=ack_timeout,
            extend_for=extend_for,
        )
        return Consumer(consumer, self._thread)

    def watch(
        self,
        topic: str,
        handler: Callable[[Event], object] | None = None,
        *,
        start: Start | None = None,
        topics: Sequence[str] | None = None,
        filter: Filter | None = None,
        coalesce: bool | None = None,
        on_lagged: Callable[[Lagged], object] | None = None,
    ) -> Watch:
        """Reads without a group. See :meth:`event_hub_client.Client.watch`. A handler runs in a thread."""
        handle = None
        if handler is not None:
            pool, called = self._pool(1, f"event-hub {topic}"), handler

            async def handle(event: Event) -> None:
                await asyncio.get_running_loop().run_in_executor(pool, called, event)

        watching = self._client.watch(
            topic,
            handle,
            start=start,
            topics=topics,
            filter=filter,
            coalesce=coalesce,
            on_lagged=on_lagged,
        )
        return Watch(self._thread.run(watching), self._thread)

    def extend(self, topic: str, group: str, ids: Sequence[str], seconds: float) -> float:
        """Puts off the deadlines of events that a subscription holds, from outside of its handlers."""
        return self._thread.run(self._client.extend(topic, group, ids, seconds))

    def close(self, timeout: float = 5.0) -> None:
        """Ends the client for good. See :meth:`event_hub_client.Client.close`. A thread cannot be cancelled: a handler that still runs
        after the timeout runs on, and its event has gone back to the group."""
        try:
            self._thread.run(self._client.close(timeout))
        except ClosedError:
            return
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self._thread.stop()

    def _pool(self, threads: int, name: str) -> concurrent.futures.ThreadPoolExecutor:
        pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._pools.append(pool)
        return pool


async def _call(function: Callable[[], None]) -> None:
    function()


async def _next(iterator: AsyncIterator[_T]) -> _T | None:
    try:
        return await iterator.__anext__()
    except StopAsyncIteration:
        return None
