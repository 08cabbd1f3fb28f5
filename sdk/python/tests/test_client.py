"""The client against a real hub that goes on running."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from event_hub_client import (
    AfterSeq,
    AlreadySubscribedError,
    BadRequestError,
    Client,
    ClosedError,
    ConnectError,
    Context,
    Event,
    ForbiddenError,
    GroupConflictError,
    HubError,
    IdConflictError,
    JwtInvalidError,
    NewEvent,
    NotDurableError,
    NotSubscribedError,
    QueueFullError,
    Receipt,
    Retry,
    Return,
    SchemaViolationError,
    TooLargeError,
    UnknownIdError,
)

from .conftest import StartHub
from .support.condition import Condition
from .support.groups import settled
from .support.hub import Hub

ID = "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00"


def client_of(hub: Hub, **options: Any) -> Client:
    return Client(hub.url, hub.token(), **options)


async def test_a_publish_is_answered_with_a_receipt_and_an_id_is_stored_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        first = await client.publish("orders", {"n": 1}, key="k", id=ID, tags=["a"], headers={"via": "test"}, sid="boot", ts=17)
        assert first == Receipt(ID, 1, 17, "fsync", False)
        assert await client.publish("orders", {"n": 1}, key="k", id=ID) == Receipt(ID, 1, 17, "fsync", True)
        with pytest.raises(IdConflictError) as conflict:
            await client.publish("orders", {"n": 2}, key="k", id=ID)
        assert (conflict.value.code, conflict.value.id) == ("id_conflict", ID)
        (record,) = await hub.log("orders")
        assert {name: record[name] for name in ("key", "tags", "headers", "sid", "ts")} == {
            "key": "k",
            "tags": ["a"],
            "headers": {"via": "test"},
            "sid": "boot",
            "ts": 17,
        }


async def test_what_the_hub_refuses_has_a_class_and_a_code(start_hub: StartHub) -> None:
    config = """
        [limits]
        max_payload = "2KiB"
        [[topics]]
        pattern = "fast"
        durability = "interval"
    """
    hub = await start_hub(config)
    await hub.request("PUT", "/schemas/prices", {"type": "integer"})
    async with Client(hub.url, hub.token(scopes=["publish:**"])) as client:
        with pytest.raises(TooLargeError):
            await client.publish("orders", "x" * 4096)
        with pytest.raises(ForbiddenError, match=r"dlq\.orders"):
            await client.publish("dlq.orders", 1)
        with pytest.raises(SchemaViolationError):
            await client.publish("prices", "1")
        with pytest.raises(BadRequestError, match="or ders"):
            await client.publish("or ders", 1)
        with pytest.raises(NotDurableError) as weak:
            await client.publish("fast", 1, require="fsync")
        assert weak.value.receipt is not None and weak.value.receipt.durable == "interval"
        with pytest.raises(ForbiddenError):
            await client.subscribe("orders", "g", lambda event, ctx: asyncio.sleep(0))
        # What cannot be sent is refused here.
        for payload in ({1, 2}, float("nan"), object()):
            with pytest.raises(BadRequestError):
                await client.publish("orders", payload)
        with pytest.raises(BadRequestError):
            await client.publish("orders", 1, id="no uuid")


async def test_a_batch_has_a_result_for_each_event(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        results = await client.publish_batch([NewEvent("a", 1), NewEvent("dlq.a", 2), NewEvent("a", 3)])
        assert [type(result) for result in results] == [Receipt, ForbiddenError, Receipt]
        assert [record["payload"] for record in await hub.log("a")] == [1, 3]


async def test_numbers_stay_exact(start_hub: StartHub) -> None:
    hub = await start_hub()
    payload = [2**53 + 1, -(2**80), 0.1, 1e300, Decimal("1.10000000000000000000000001"), Decimal("1E+400"), True, None, "ü"]
    async with client_of(hub) as client:
        async with client.consume("numbers", "g", start="earliest") as deliveries:
            await client.publish("numbers", payload)
            event = (await deliveries.__anext__()).event
    # A decimal with more digits than a double is a float for a reader; an exponent beyond doubles is not.
    assert event.payload[:4] == payload[:4]
    assert event.payload[5] == Decimal("1E+400")
    assert (await hub.request("GET", "/export?topic=numbers&ndjson=1")).count("1.10000000000000000000000001") == 1


async def test_a_handler_that_raises_gets_the_event_again_until_it_is_a_dead_letter(start_hub: StartHub) -> None:
    hub = await start_hub()
    attempts: list[int] = []
    seen = Condition()

    async def handle(event: Event, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        seen.changed()
        assert (ctx.topic, ctx.group, ctx.max_attempts, event.payload) == ("orders.*", "g", 2, {"n": 1})
        if ctx.attempt == 1:
            raise Return(delay=0.02)
        if ctx.attempt == 2:
            raise Retry("not yet", delay=0.02)
        raise ValueError("no such card")

    async with client_of(hub) as client:
        await client.subscribe("orders.*", "g", handle, max_attempts=2)
        async with await client.watch("dlq.orders.new") as letters:
            await client.publish("orders.new", {"n": 1})
            letter = await letters.__anext__()
    assert attempts == [1, 2, 3]
    assert (letter.payload["err"], letter.payload["attempts"]) == ("ValueError: no such card", 3)


async def test_an_event_that_follows_is_stored_once_however_often_its_handler_runs(start_hub: StartHub) -> None:
    hub = await start_hub()
    receipts: list[Receipt] = []
    seen = Condition()

    async def handle(event: Event, ctx: Context) -> None:
        receipts.append(await ctx.publish("mail", {"to": event.payload}, key="k"))
        receipts.append(await ctx.publish("mail", {"cc": event.payload}))
        seen.changed()
        if ctx.attempt == 1:
            raise Retry(delay=0.02)

    async with client_of(hub) as client:
        await client.subscribe("orders", "g", handle)
        order = await client.publish("orders", 17)
        await seen.until(lambda: len(receipts) == 4)
    assert [receipt.duplicate for receipt in receipts] == [False, False, True, True]
    mails = await hub.log("mail")
    assert [mail["payload"] for mail in mails] == [{"to": 17}, {"cc": 17}]
    assert all(mail["caused_by"] == [order.id] for mail in mails)


async def test_a_loop_settles_by_hand(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        await client.publish("jobs", 1)
        async with client.consume("jobs", "workers", start="earliest", max_attempts=2) as jobs:
            failed = await jobs.__anext__()
            assert await failed.nack(delay=0.01, reason="not now")
            returned = await jobs.__anext__()
            assert returned.attempt == 2
            assert await returned.give_back(delay=0.01)
            third = await jobs.__anext__()
            assert third.attempt == 3
            assert 100 < await third.extend(120) <= 120
            assert 100 < third.time_left <= 120
            assert 200 < await client.extend("jobs", "workers", [third.event.id], 240) <= 240
            assert await third.ack()
            # It is settled.
            assert not await third.ack()
            with pytest.raises(UnknownIdError):
                await client.extend("jobs", "workers", [third.event.id], 1)
        with pytest.raises(NotSubscribedError):
            await client.extend("jobs", "workers", [ID], 1)
        await settled(hub, "jobs", "workers")


async def test_a_loop_that_ends_gives_back_what_is_not_settled(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        await client.publish_batch([NewEvent("jobs", n) for n in range(3)])
        async with client.consume("jobs", "workers", start="earliest", max_attempts=1, max_in_flight=2) as jobs:
            async for job in jobs:
                if job.event.payload == 1:
                    break
        async with client.consume("jobs", "workers") as jobs:
            again = [await jobs.__anext__() for _ in range(3)]
            # With one attempt, a failure would have made them dead letters.
            assert sorted((job.event.payload, job.attempt) for job in again) == [(0, 2), (1, 2), (2, 1)]
            assert all([await job.ack() for job in again])


async def test_a_group_shares_and_a_pause_leaves_events_to_others(start_hub: StartHub) -> None:
    hub = await start_hub()
    counts = {"one": 0, "two": 0}
    seen = Condition()

    def handler_of(name: str) -> Any:
        async def handle(event: Event, ctx: Context) -> None:
            counts[name] += 1
            seen.changed()

        return handle

    async with client_of(hub) as first, client_of(hub) as second:
        one = await first.subscribe("jobs", "g", handler_of("one"))
        await second.subscribe("jobs", "g", handler_of("two"))
        await first.publish_batch([NewEvent("jobs", n) for n in range(200)])
        await seen.until(lambda: sum(counts.values()) == 200)
        assert min(counts.values()) > 0
        one.pause()
        assert one.is_paused
        before = counts["one"]
        # Behind the PAUSE on the same connection.
        await first.publish_batch([NewEvent("jobs", n) for n in range(100)])
        await seen.until(lambda: sum(counts.values()) == 300)
        assert counts["one"] == before
        one.resume()
        await first.publish_batch([NewEvent("jobs", n) for n in range(200)])
        await seen.until(lambda: sum(counts.values()) == 500)
        assert counts["one"] > before
        with pytest.raises(AlreadySubscribedError):
            await first.subscribe("jobs", "g", handler_of("one"))
        with pytest.raises(GroupConflictError):
            await first.subscribe("jobs", "g2", handler_of("one"), max_attempts=3)
            await second.subscribe("jobs", "g2", handler_of("two"), max_attempts=4)
        await one.unsubscribe()
        assert await one.wait_closed() is None


async def test_a_key_has_one_event_at_a_time_in_order(start_hub: StartHub) -> None:
    hub = await start_hub()
    running: set[str] = set()
    last: dict[str, int] = {}
    done = 0
    seen = Condition()

    async def handle(event: Event, ctx: Context) -> None:
        nonlocal done
        key = event.key or ""
        assert key not in running
        running.add(key)
        await asyncio.sleep(0)
        if event.payload % 7 == 0 and ctx.attempt == 1:
            running.discard(key)
            raise Retry(delay=0.01)
        assert event.payload == last.get(key, -1) + 1
        last[key] = event.payload
        running.discard(key)
        done += 1
        seen.changed()

    async with client_of(hub) as client:
        await client.subscribe("steps", "g", handle, ordering="key", concurrency=8)
        await client.publish_batch([NewEvent("steps", n, key=f"k{key}") for n in range(20) for key in range(5)])
        await seen.until(lambda: done == 100)


async def test_watchers_get_every_event_and_coalesced_state(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        for price in (4, 5):
            await client.publish("prices", price, key="tea", tags=["drink"])
        await client.publish("prices", 9, key="rice")
        async with await client.watch("prices", start="earliest", coalesce=True) as state:
            assert [(await state.__anext__()).payload for _ in range(2)] == [5, 9]
        async with await client.watch("prices", start=AfterSeq(1)) as late:
            assert [(await late.__anext__()).seq for _ in range(2)] == [2, 3]
        async with await client.watch("*", start="earliest", filter={"tags": ["drink"]}) as drinks:
            assert [(await drinks.__anext__()).payload for _ in range(2)] == [4, 5]
        got: list[Any] = []
        seen = Condition()

        async def handle(event: Event) -> None:
            got.append(event.payload)
            seen.changed()
            if event.payload == 10:
                raise ValueError("is logged")

        watch = await client.watch("prices", handle)
        for price in (10, 11):
            await client.publish("prices", price)
        await seen.until(lambda: got == [10, 11])
        await watch.unsubscribe()


async def test_a_slow_watcher_holds_the_hub_back_and_misses_nothing(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client, client_of(hub) as other:
        async with await client.watch("news") as news:
            await other.publish_batch([NewEvent("news", n) for n in range(2_000)])
            while not news._is_full:
                await client.publish("ping", 1)
            # Behind the PAUSE on the same connection.
            await client.publish("ping", 1)
            await other.publish_batch([NewEvent("news", n) for n in range(2_000, 4_000)])
            await client.publish("ping", 1)
            assert len(news._waiting) <= 2_000
            assert [(await news.__anext__()).payload for _ in range(4_000)] == list(range(4_000))


async def test_open_publishes_are_bounded(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub, max_pending=2, when_full="reject") as strict:
        results = await asyncio.gather(*(strict.publish("a", n) for n in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [Receipt, Receipt, QueueFullError]
    async with client_of(hub, max_pending=2) as patient:
        results = await asyncio.gather(*(patient.publish("b", n) for n in range(500)))
        assert len(results) == 500
    assert [record["payload"] for record in await hub.log("b")] == list(range(500))


async def test_a_rate_is_waited_out_and_the_order_of_a_key_is_kept(start_hub: StartHub) -> None:
    hub = await start_hub("[limits]\nconnection_rate = 50\n")
    async with client_of(hub) as client:
        await asyncio.gather(*(client.publish("a", n, key="k", order="key") for n in range(150)))
    assert [record["payload"] for record in await hub.log("a")] == list(range(150))


async def test_a_publish_that_nobody_waits_for_is_not_sent(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with client_of(hub) as client:
        publishing = asyncio.ensure_future(client.publish("a", 1))
        await asyncio.sleep(0)
        publishing.cancel()
        await client.publish("a", 2)
        assert client._publisher.pending == 0
    assert [record["payload"] for record in await hub.log("a")] == [2]


async def test_a_first_attempt_that_fails_is_told_by_connect(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = Client(hub.url, "no token")
    with pytest.raises(JwtInvalidError):
        await client.connect()
    assert client.state.name == "closed"
    with pytest.raises(JwtInvalidError):
        await client.publish("a", 1)
    nobody = Client("ws://127.0.0.1:1/", hub.token())
    with pytest.raises(ConnectError):
        await nobody.connect()
    assert nobody.state.name == "idle"
    await nobody.close()
    states: list[str] = []
    async with client_of(hub, on_state=lambda state: states.append(state.name)) as good:
        await good.connect()
        assert (good.state.name, good.state.sub) == ("ready", "test")
    assert states == ["token", "opening", "authenticating", "ready", "closing", "closed"]
    with pytest.raises(ClosedError):
        await good.publish("a", 1)


async def test_close_waits_for_handlers_and_gives_back_what_was_not_started(start_hub: StartHub) -> None:
    hub = await start_hub()
    started = Condition()
    running: list[int] = []
    finished: list[int] = []
    stopped: list[str] = []

    async def handle(event: Event, ctx: Context) -> None:
        running.append(event.payload)
        started.changed()
        stopped.append((await ctx.wait_stopped()).code)
        finished.append(event.payload)

    client = client_of(hub)
    await client.subscribe("jobs", "g", handle, concurrency=2, max_in_flight=10)
    await client.publish_batch([NewEvent("jobs", n) for n in range(10)])
    await started.until(lambda: len(running) == 2)
    await client.close()
    assert finished == [0, 1] and stopped == ["closed", "closed"]
    async with client_of(hub) as other:
        async with other.consume("jobs", "g") as rest:
            got = []
            for _ in range(8):
                job = await rest.__anext__()
                got.append(job.event.payload)
                await job.ack()
    assert sorted(got) == list(range(2, 10))


async def test_a_handler_that_raises_because_it_was_told_to_stop_has_not_failed(start_hub: StartHub) -> None:
    hub = await start_hub()
    started = asyncio.Event()

    async def handle(event: Event, ctx: Context) -> None:
        started.set()
        await ctx.wait_stopped()
        ctx.raise_if_stopped()

    client = client_of(hub)
    # With one attempt, a failure would make it a dead letter.
    await client.subscribe("jobs", "g", handle, max_attempts=1)
    await client.publish("jobs", 1)
    await started.wait()
    await client.close()
    async with client_of(hub) as other, other.consume("jobs", "g") as rest:
        assert (await rest.__anext__()).attempt == 2


async def test_an_unsubscribe_gives_back_what_waits_while_handlers_still_run(start_hub: StartHub) -> None:
    hub = await start_hub()
    started, go_on = asyncio.Event(), asyncio.Event()
    ended: list[Any] = []

    async def handle(event: Event, ctx: Context) -> None:
        started.set()
        await go_on.wait()
        ended.append(event.payload)

    async with client_of(hub) as client, client_of(hub) as other:
        subscription = await client.subscribe("jobs", "g", handle, concurrency=1, max_in_flight=10, ack_timeout=600)
        await client.publish_batch([NewEvent("jobs", n) for n in range(5)])
        await started.wait()
        await subscription.unsubscribe()
        async with other.consume("jobs", "g") as rest:
            jobs = [await rest.__anext__() for _ in range(4)]
            assert sorted(job.event.payload for job in jobs) == [1, 2, 3, 4]
            assert all([await job.ack() for job in jobs])
        go_on.set()
        assert await subscription.wait_closed() is None
        await settled(hub, "jobs", "g")
    assert ended == [0]


async def test_handlers_that_do_not_end_are_cancelled_by_close(start_hub: StartHub) -> None:
    hub = await start_hub()
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(event: Event, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    client = client_of(hub)
    await client.subscribe("jobs", "g", handle, max_attempts=1)
    await client.publish("jobs", 1)
    await started.wait()
    await client.close(timeout=0.1)
    assert cancelled.is_set()
    async with client_of(hub) as other, other.consume("jobs", "g") as rest:
        job = await rest.__anext__()
        # With one attempt, a failure would have made it a dead letter.
        assert job.attempt == 2


async def test_a_right_that_is_taken_back_ends_the_subscription(start_hub: StartHub) -> None:
    hub = await start_hub()
    tokens = [hub.token(ttl=2), hub.token(scopes=["publish:**"])]
    client = Client(hub.url, lambda refused: tokens.pop(0) if len(tokens) > 1 else tokens[0])
    try:
        subscription = await client.subscribe("orders", "g", lambda event, ctx: asyncio.sleep(0))
        error = await asyncio.wait_for(subscription.wait_closed(), 30)
        assert isinstance(error, HubError) and error.code == "forbidden"
        await client.publish("orders", 1)
    finally:
        await client.close()


@pytest.mark.parametrize(
    "options",
    [
        {"urls": []},
        {"urls": "http://127.0.0.1/"},
        {"max_pending": 0},
        {"publish_timeout": 0},
        {"backoff": (1.0, 0.5)},
        {"backoff": (0.0, 1.0)},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        Client(**{"urls": "ws://127.0.0.1:1/", **options})


async def test_wrong_options_of_subscriptions_are_refused_before_the_hub_is_asked() -> None:
    async with Client("ws://127.0.0.1:1/") as client:
        for options in ({"concurrency": 0}, {"max_in_flight": -1}, {"start": "newest"}):
            with pytest.raises(BadRequestError):
                await client.subscribe("a", "g", lambda event, ctx: asyncio.sleep(0), **options)
        with pytest.raises(BadRequestError):
            await client.watch("a", start=17)  # type: ignore[arg-type]
        assert client.state.name == "idle"


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 43_201])
def test_wrong_delays_are_refused(delay: float) -> None:
    with pytest.raises(BadRequestError):
        Retry(delay=delay)
    with pytest.raises(BadRequestError):
        Return(delay=delay)
