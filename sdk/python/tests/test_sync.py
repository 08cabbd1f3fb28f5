"""The client without an event loop, against a real hub. The hub's proxy has the loop; the client is called in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from event_hub_client import (
    ClosedError,
    ConnectError,
    Event,
    ForbiddenError,
    HubError,
    IdConflictError,
    NewEvent,
    Receipt,
    Retry,
)
from event_hub_client.sync import Client, Context

from .conftest import StartHub
from .support.groups import settled

_TIMEOUT = 60.0


async def test_publish_subscribe_consume_and_watch(start_hub: StartHub) -> None:
    hub = await start_hub()

    def program() -> None:
        with Client(hub.url, hub.token()) as client:
            client.connect()
            assert client.state.name == "ready"
            receipt = client.publish("orders", {"id": 17}, key="order-17")
            assert (receipt.seq, receipt.durable) == (1, "fsync")
            with pytest.raises(IdConflictError):
                client.publish("orders", {"id": 18}, id=receipt.id)
            results = client.publish_batch([NewEvent("orders", 2), NewEvent("dlq.orders", 3)])
            assert [type(result) for result in results] == [Receipt, ForbiddenError]

            handled: list[tuple[Any, int]] = []
            done = threading.Event()

            def handle(event: Event, ctx: Context) -> None:
                assert threading.current_thread() is not threading.main_thread()
                handled.append((event.payload, ctx.attempt))
                assert ctx.time_left > 1
                assert ctx.extend(60) > 50
                ctx.raise_if_stopped()
                ctx.publish("mail", event.payload)
                if ctx.attempt == 1:
                    raise Retry(delay=0.01)
                done.set()

            subscription = client.subscribe("orders", "g", handle, start="earliest", concurrency=1, ordering="key")
            assert done.wait(_TIMEOUT)
            subscription.pause()
            assert subscription.is_paused
            subscription.resume()
            subscription.unsubscribe()
            assert subscription.wait_closed() is None
            assert (handled[0], len(client.watch("mail", start="earliest").__next__().caused_by)) == (({"id": 17}, 1), 1)

            with client.consume("orders", "loop", start="earliest") as jobs:
                for job in jobs:
                    assert job.group == "loop"
                    assert job.nack(delay=0.01) if job.attempt == 1 else job.ack()
                    if job.event.payload == 2 and job.attempt > 1:
                        break

            heard = threading.Event()
            watch = client.watch("news", lambda event: heard.set())
            client.publish("news", 1)
            assert heard.wait(_TIMEOUT)
            watch.unsubscribe()
        client.close()
        with pytest.raises(ClosedError):
            client.publish("orders", 1)
        assert not [thread for thread in threading.enumerate() if thread.name == "event-hub client"]

    await asyncio.to_thread(program)


async def test_many_threads_publish_and_a_hub_is_killed_meanwhile(start_hub: StartHub) -> None:
    hub = await start_hub()
    counts: dict[tuple[int, int], int] = {}
    lock = threading.Lock()
    enough, everything = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(event: Event, ctx: Context) -> None:
        with lock:
            key = tuple(event.payload)
            counts[key] = counts.get(key, 0) + 1
            if len(counts) == 300:
                loop.call_soon_threadsafe(enough.set)
            if len(counts) == 1_000:
                loop.call_soon_threadsafe(everything.set)

    def program() -> None:
        with Client(hub.url, hub.token()) as client, ThreadPoolExecutor(4) as pool:
            client.subscribe("jobs", "g", handle, concurrency=4)

            def publish(thread: int) -> None:
                futures = [client.submit(NewEvent("jobs", [thread, n], key=str(thread), order="key")) for n in range(100)]
                assert [future.result(_TIMEOUT).duplicate for future in futures].count(True) >= 0
                for n in range(100, 250):
                    client.publish("jobs", [thread, n], key=str(thread), order="key")

            assert list(pool.map(publish, range(4))) == [None] * 4
            asyncio.run_coroutine_threadsafe(everything.wait(), loop).result(_TIMEOUT)

    running = asyncio.ensure_future(asyncio.to_thread(program))
    await enough.wait()
    await hub.kill()
    await hub.run()
    await running
    assert set(counts.values()) == {1}
    log = await hub.log("jobs")
    for thread in range(4):
        assert [n for key, n in (record["payload"] for record in log) if key == thread] == list(range(250))
    await settled(hub, "jobs", "g")


async def test_handlers_run_in_as_many_threads_as_they_may(start_hub: StartHub) -> None:
    hub = await start_hub()

    def program() -> None:
        together = threading.Barrier(3)

        def handle(event: Event, ctx: Context) -> None:
            # Each waits for the other.
            together.wait(_TIMEOUT)

        with Client(hub.url, hub.token()) as client:
            client.subscribe("jobs", "g", handle, concurrency=2)
            client.publish_batch([NewEvent("jobs", 1), NewEvent("jobs", 2)])
            together.wait(_TIMEOUT)

    await asyncio.to_thread(program)
    await settled(hub, "jobs", "g")


async def test_errors_come_out_and_a_token_function_may_block(start_hub: StartHub) -> None:
    hub = await start_hub()

    def program() -> None:
        calls: list[HubError | None] = []

        def token(refused: HubError | None) -> str:
            calls.append(refused)
            time.sleep(0.01)
            return hub.token(scopes=["subscribe:**"])

        with Client(hub.url, token) as client:
            with pytest.raises(ForbiddenError):
                client.publish("orders", 1)
            assert calls == [None]
        with Client("ws://127.0.0.1:1/", "token") as nobody, pytest.raises(ConnectError):
            nobody.connect()

    await asyncio.to_thread(program)


async def test_close_does_not_wait_for_a_thread_that_does_not_end(start_hub: StartHub) -> None:
    hub = await start_hub()
    go_on = threading.Event()

    def program() -> None:
        started = threading.Event()

        def handle(event: Event, ctx: Context) -> None:
            started.set()
            go_on.wait(_TIMEOUT)

        client = Client(hub.url, hub.token())
        client.subscribe("jobs", "g", handle, max_attempts=1)
        client.publish("jobs", 1)
        assert started.wait(_TIMEOUT)
        client.close(timeout=0.1)
        # It has gone back without a failure, while the thread still runs.
        with Client(hub.url, hub.token()) as other, other.consume("jobs", "g") as jobs:
            job = next(jobs)
            assert job.attempt == 2
            assert job.ack()
        go_on.set()

    await asyncio.to_thread(program)
