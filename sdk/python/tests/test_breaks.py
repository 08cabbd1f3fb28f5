"""Connections that break, hubs that are killed, frozen and restarted, tokens that end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from typing import Any

import pytest

from event_hub_client import (
    Client,
    Context,
    Event,
    HubError,
    NewEvent,
    Receipt,
    TokenExpiredError,
    TokenFailedError,
    UnavailableError,
    connection,
)

from .conftest import StartHub
from .support.condition import Condition
from .support.groups import in_flight, lag_of, settled

#: How often the hub is killed meanwhile.
RESTARTS = int(os.environ.get("EVENT_HUB_SDK_RESTARTS", "2"))
KEYS = 100
#: Events that are published before they are handled.
AHEAD = 1_000
#: So many that the last kill comes before the last publish.
EVENTS = max(5_000, 1_200 * (RESTARTS + 1))


async def test_a_hub_that_is_killed_loses_no_event_doubles_none_and_keeps_the_order_of_keys(start_hub: StartHub) -> None:
    hub = await start_hub()
    seen = Condition()
    handled: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    out_of_order: list[str] = []

    async def handle(event: Event, ctx: Context) -> None:
        key, n = event.payload
        await asyncio.sleep(random.random() * 0.002)
        handled[key, n] = handled.get((key, n), 0) + 1
        if handled[key, n] == 1:
            if n != last.get(key, 0) + 1:
                out_of_order.append(f"{key}: {n} after {last.get(key)}")
            last[key] = n
        seen.changed()

    async with Client(hub.url, hub.token(), max_pending=1_000) as publisher, Client(hub.url, hub.token()) as consumer:
        await consumer.subscribe("steps", "g", handle, ordering="key", concurrency=64, max_in_flight=1_000)

        async def publish() -> None:
            for n in range(1, EVENTS // KEYS + 1):
                # So that the hub is killed while events are published and handled.
                await seen.until(lambda n=n: n * KEYS - len(handled) <= AHEAD)  # type: ignore[misc]
                publishes = (publisher.publish("steps", [f"k{key}", n], key=f"k{key}", order="key") for key in range(KEYS))
                publishing.append(asyncio.gather(*publishes))

        publishing: list[asyncio.Future[list[Receipt]]] = []
        publisher_task = asyncio.ensure_future(publish())
        for round in range(1, RESTARTS + 1):
            await seen.until(lambda round=round: len(handled) >= EVENTS * round // (RESTARTS + 1))  # type: ignore[misc]
            assert not publisher_task.done()
            await hub.kill()
            await hub.run()
        await publisher_task
        await asyncio.gather(*publishing)
        await seen.until(lambda: len(handled) >= EVENTS)
        await settled(hub, "steps", "g")

    log = await hub.log("steps")
    stored: dict[str, int] = {}
    for record in log:
        key, n = record["payload"]
        assert n == stored.get(key, 0) + 1, f"the log has {key} out of order"
        stored[key] = n
    twice = sum(times > 1 for times in handled.values())
    print(f"{EVENTS} events, {RESTARTS} kills: {EVENTS - len(handled)} lost, {twice} handled twice, {len(out_of_order)} out of order")
    assert len(log) == EVENTS, "each event is stored once"
    assert len(handled) == EVENTS, "each event is handled"
    assert twice == 0, "no event is handled twice by a consumer that lives on"
    assert out_of_order == []


async def test_a_handler_runs_on_over_a_lost_connection_and_its_lease_is_kept(start_hub: StartHub) -> None:
    hub = await start_hub()
    started, go_on, reconnected = asyncio.Event(), asyncio.Event(), asyncio.Event()
    attempts: list[int] = []
    settled_with: list[object] = []

    async def handle(event: Event, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        started.set()
        await go_on.wait()
        attempts.append(ctx.attempt)
        settled_with.append(ctx.stopped)

    def on_state(state: Any) -> None:
        if started.is_set() and state.name == "ready":
            reconnected.set()

    # With one attempt, a failure would make the event a dead letter.
    async with Client(hub.url, hub.token(), on_state=on_state) as client, Client(hub.url, hub.token()) as other:
        await client.subscribe("jobs", "g", handle, max_attempts=1)
        await client.publish("jobs", 1)
        await started.wait()
        others: list[Event] = []

        async def steal(event: Event, ctx: Context) -> None:
            others.append(event)

        hub.cut()
        await asyncio.wait_for(reconnected.wait(), 30)
        # Another member does not get it: it is still leased.
        await other.subscribe("jobs", "g", steal)
        await client.publish("ping", 1)
        assert (await lag_of(hub, "jobs", "g"))["inflight"] == 1
        go_on.set()
        await settled(hub, "jobs", "g")
        # The event did not come again.
        assert (attempts, settled_with, others) == ([1, 1], [None], [])


async def test_an_ack_is_kept_while_the_hub_is_away(start_hub: StartHub) -> None:
    hub = await start_hub()
    lost = Condition()
    started, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs = 0

    async def handle(event: Event, ctx: Context) -> None:
        nonlocal runs
        runs += 1
        started.set()
        await go_on.wait()
        ended.set()

    async with Client(hub.url, hub.token(), on_state=lambda _: lost.changed()) as client:
        # Longer than this test waits: the ack has to be said again.
        await client.subscribe("jobs", "g", handle, ack_timeout=600)
        await client.publish("jobs", 1)
        await started.wait()
        hub.set_reachable(False)
        await lost.until(lambda: client.state.name != "ready")
        go_on.set()
        await ended.wait()
        hub.set_reachable(True)
        await settled(hub, "jobs", "g")
        assert runs == 1


async def test_a_handler_that_runs_takes_over_what_a_restarted_hub_delivers_again(start_hub: StartHub) -> None:
    hub = await start_hub()
    seen = Condition()
    go_on = asyncio.Event()
    contexts: list[Context] = []

    async def handle(event: Event, ctx: Context) -> None:
        contexts.append(ctx)
        seen.changed()
        await go_on.wait()
        assert ctx.stopped is None

    async with Client(hub.url, hub.token()) as client:
        # Room for a second run, if there were one.
        await client.subscribe("jobs", "g", handle, concurrency=4)
        await client.publish_batch([NewEvent("jobs", n) for n in range(2)])
        await seen.until(lambda: len(contexts) == 2)
        await hub.kill()
        await hub.run()
        # Behind the two in the log: when it comes, they came again.
        await client.publish("jobs", 2)
        await seen.until(lambda: len(contexts) == 3)
        go_on.set()
        await settled(hub, "jobs", "g")
        assert len(contexts) == 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_an_event_that_was_handled_while_its_hub_restarts_is_acked_and_not_run_again(
    start_hub: StartHub, how: signal.Signals
) -> None:
    hub = await start_hub()
    lost = Condition()
    started, go_on = asyncio.Event(), asyncio.Event()
    runs: list[Any] = []

    async def handle(event: Event, ctx: Context) -> None:
        runs.append(event.payload)
        started.set()
        await go_on.wait()

    async with Client(hub.url, hub.token(), on_state=lambda _: lost.changed()) as client:
        await client.subscribe("jobs", "g", handle, max_attempts=1)
        await client.publish("jobs", 1)
        await started.wait()
        ending = asyncio.ensure_future(hub.kill(how))
        await lost.until(lambda: client.state.name != "ready")
        go_on.set()
        await ending
        publishing = asyncio.ensure_future(client.publish("jobs", 2))
        await hub.run()
        assert (await publishing).seq == 2
        await settled(hub, "jobs", "g")
        assert runs == [1, 2]


async def test_a_lease_that_is_lost_is_told_to_its_handler(start_hub: StartHub) -> None:
    hub = await start_hub()
    why: list[HubError] = []
    told = asyncio.Event()

    async def handle(event: Event, ctx: Context) -> None:
        if ctx.attempt > 1:
            return
        why.append(await ctx.wait_stopped())
        told.set()
        with pytest.raises(HubError):
            await ctx.extend(1)
        ctx.raise_if_stopped()

    async with Client(hub.url, hub.token()) as client:
        await client.subscribe("jobs", "g", handle, ack_timeout=0.3, extend_for=0)
        await client.publish("jobs", 1)
        await asyncio.wait_for(told.wait(), 30)
        assert why[0].code == "lease_lost"
        await settled(hub, "jobs", "g")


async def test_a_key_waits_for_a_handler_that_has_lost_its_lease(start_hub: StartHub) -> None:
    hub = await start_hub()
    seen = Condition()
    go_on = asyncio.Event()
    slow: list[Any] = []
    quick: list[Any] = []

    async def handle_slowly(event: Event, ctx: Context) -> None:
        slow.append(event.payload)
        seen.changed()
        await go_on.wait()

    async def handle_quickly(event: Event, ctx: Context) -> None:
        quick.append(event.payload)
        seen.changed()

    async with Client(hub.url, hub.token()) as first, Client(hub.url, hub.token()) as second:
        one = await first.subscribe("jobs", "g", handle_slowly, ordering="key", ack_timeout=0.5, extend_for=0)
        await first.publish("jobs", 1, key="k")
        await seen.until(lambda: slow == [1])
        # Its time is up, and it goes to the other member.
        one.pause()
        two = await second.subscribe("jobs", "g", handle_quickly)
        await seen.until(lambda: quick == [1])
        await settled(hub, "jobs", "g")
        two.pause()
        await second.publish("ping", 1)
        one.resume()
        await first.publish("jobs", 2, key="k")
        await first.publish("other", 3)
        # It is here, and waits for the handler that still runs.
        await in_flight(hub, "jobs", "g", 1)
        await first.publish("other", 4)
        assert slow == [1]
        go_on.set()
        await seen.until(lambda: slow == [1, 2])


async def test_a_lease_is_extended_for_as_long_as_its_handler_runs(start_hub: StartHub) -> None:
    hub = await start_hub()
    attempts: list[int] = []
    done = asyncio.Event()
    ack_timeout = 1.5

    async def handle(event: Event, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        await asyncio.sleep(2.5 * ack_timeout)
        assert ctx.stopped is None
        assert ctx.time_left > 0
        done.set()

    async with Client(hub.url, hub.token()) as client:
        await client.subscribe("jobs", "g", handle, ack_timeout=ack_timeout)
        await client.publish("jobs", 1)
        await asyncio.wait_for(done.wait(), 30)
        await settled(hub, "jobs", "g")
        assert attempts == [1]


async def test_a_token_that_ends_in_mid_stream_is_renewed_before(start_hub: StartHub) -> None:
    hub = await start_hub()
    seen = Condition()
    payloads: list[int] = []
    calls = 0
    running = 0
    states: list[tuple[str, bool]] = []

    async def token(refused: HubError | None) -> str:
        nonlocal calls, running
        calls += 1
        running += 1
        assert running == 1, "one call at a time"
        assert refused is None
        await asyncio.sleep(0.05)
        running -= 1
        return hub.token(ttl=3)

    async def handle(event: Event, ctx: Context) -> None:
        payloads.append(event.payload)
        seen.changed()

    async with Client(hub.url, token, on_state=lambda state: states.append((state.name, state.is_expired))) as client:
        await client.subscribe("jobs", "g", handle, concurrency=1)
        n = 0
        while calls < 4:
            await client.publish("jobs", n)
            n += 1
        await seen.until(lambda: len(payloads) == n)
    assert payloads == list(range(n))
    # One connection carried all of them.
    assert [name for name, _ in states].count("opening") == 1
    assert ("ready", True) not in states


async def test_a_token_that_ran_out_is_waited_for_and_acks_go_on(start_hub: StartHub) -> None:
    hub = await start_hub()
    seen = Condition()
    states: list[tuple[str, bool]] = []
    is_late = False
    handled: list[int] = []

    async def token(refused: HubError | None) -> str:
        if is_late:
            await seen.until(lambda: ("ready", True) in states)
            await asyncio.sleep(0.3)
        return hub.token(ttl=2 if not is_late else 60)

    def on_state(state: Any) -> None:
        states.append((state.name, state.is_expired))
        seen.changed()

    async def handle(event: Event, ctx: Context) -> None:
        # It ends while the token has run out.
        await seen.until(lambda: ("ready", True) in states)
        handled.append(event.payload)
        seen.changed()

    async with Client(hub.url, token, on_state=on_state) as client:
        await client.subscribe("jobs", "g", handle)
        is_late = True
        await client.publish("jobs", 1)
        await seen.until(lambda: handled == [1])
        assert isinstance(await client.publish("jobs", 2), Receipt)
        await seen.until(lambda: handled == [1, 2])
        await settled(hub, "jobs", "g")
    assert [name for name, _ in states].count("opening") == 1


async def test_a_token_that_the_hub_takes_for_expired_is_replaced_at_once(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the clock here were far behind.
    monkeypatch.setattr(connection, "_RENEW_AT", 100)
    hub = await start_hub()
    calls = 0
    states: list[str] = []

    async def token(refused: HubError | None) -> str:
        nonlocal calls
        calls += 1
        return hub.token(ttl=2 if calls == 1 else 60)

    async with Client(hub.url, token, on_state=lambda state: states.append(state.name)) as client, await client.watch("news") as news:
        while calls == 1:
            await client.publish("news", calls)
        await client.publish("news", "last")
        while (await news.__anext__()).payload != "last":
            pass
    assert calls == 2
    assert states.count("opening") == 1


async def test_a_fixed_token_that_ends_ends_the_client(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = Client(hub.url, hub.token(ttl=2))
    subscription = await client.subscribe("jobs", "g", lambda event, ctx: asyncio.sleep(0))
    error = await asyncio.wait_for(subscription.wait_closed(), 30)
    assert isinstance(error, TokenExpiredError)
    assert client.state.name == "closed"
    with pytest.raises(TokenExpiredError):
        await client.publish("jobs", 1)


async def test_a_refused_token_is_replaced_at_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    refusals: list[str | None] = []
    threads: set[str] = set()

    def token(refused: HubError | None) -> str:
        # A function that is not async runs in a thread.
        threads.add(threading.current_thread().name)
        refusals.append(None if refused is None else refused.code)
        return hub.token() if refused else hub.token(ttl=0, issued=1_000_000_000)

    async with Client(hub.url, token) as client:
        await client.connect()
        await client.publish("a", 1)
    assert refusals == [None, "token_expired"]
    assert threading.current_thread().name not in threads


async def test_a_token_function_that_raises_is_asked_again(start_hub: StartHub) -> None:
    hub = await start_hub()
    calls = 0

    async def token(refused: HubError | None) -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise OSError("no network")
        return hub.token()

    async with Client(hub.url, token, backoff=(0.01, 0.1)) as client:
        with pytest.raises(TokenFailedError, match="no network"):
            await client.connect()
        assert (await client.publish("a", 1)).seq == 1
    assert calls == 3


async def test_a_frozen_hub_is_left_and_nothing_is_lost_when_it_goes_on(start_hub: StartHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SILENCE", 0.3)
    monkeypatch.setattr(connection, "_PROBE_TIMEOUT", 0.5)
    monkeypatch.setattr(connection, "_OPEN_TIMEOUT", 1.0)
    hub = await start_hub()
    seen = Condition()
    counts: dict[int, int] = {}
    states: list[str] = []

    async def handle(event: Event, ctx: Context) -> None:
        counts[event.payload] = counts.get(event.payload, 0) + 1
        seen.changed()

    def on_state(state: Any) -> None:
        states.append(state.name)
        seen.changed()

    async with Client(hub.url, hub.token(), on_state=on_state, backoff=(0.05, 0.2)) as client:
        await client.subscribe("jobs", "g", handle)
        publishing = [asyncio.ensure_future(client.publish("jobs", n)) for n in range(300)]
        await seen.until(lambda: len(counts) > 0)
        await hub.freeze()
        publishing += [asyncio.ensure_future(client.publish("jobs", n)) for n in range(300, 600)]
        await seen.until(lambda: "waiting" in states)
        hub.thaw()
        await asyncio.gather(*publishing)
        await seen.until(lambda: len(counts) == 600)
        await settled(hub, "jobs", "g")
    assert set(counts.values()) == {1}
    assert sorted(record["payload"] for record in await hub.log("jobs")) == list(range(600))


async def test_publishes_are_sent_again_in_the_order_of_the_calls(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with Client(hub.url, hub.token()) as client:
        await client.publish("jobs", 0)
        await hub.freeze()
        # More than what may be on its way: the rest waits to be sent.
        publishing = asyncio.gather(*(client.publish("jobs", n) for n in range(1, 6_000)))
        await asyncio.sleep(0)
        # Each turn of the loop brings some of them closer.
        while client._publisher._sent_events < 4_096:  # noqa: ASYNC110
            await asyncio.sleep(0)
        hub.cut()
        hub.thaw()
        receipts = await publishing
    assert [receipt.seq for receipt in receipts] == list(range(2, 6_001))
    assert [record["payload"] for record in await hub.log("jobs")] == list(range(6_000))


async def test_a_publish_without_an_answer_in_time_says_so_with_its_id(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with Client(hub.url, hub.token(), publish_timeout=0.5) as client:
        await client.connect()
        await hub.freeze()
        with pytest.raises(UnavailableError) as unknown:
            await client.publish("a", 1)
        hub.thaw()
        assert unknown.value.id is not None
        # To publish the id again is safe.
        receipt = await client.publish("a", 1, id=unknown.value.id)
        assert receipt.seq == 1
    assert len(await hub.log("a")) == 1


async def test_a_watcher_goes_on_behind_its_last_event(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with Client(hub.url, hub.token()) as client, Client(hub.direct_url, hub.token()) as publisher:
        async with await client.watch("news") as news:
            await publisher.publish("news", 1)
            assert (await news.__anext__()).payload == 1
            hub.set_reachable(False)
            await publisher.publish("news", 2)
            hub.set_reachable(True)
            await publisher.publish("news", 3)
            assert [(await news.__anext__()).payload for _ in range(2)] == [2, 3]


async def test_the_wait_between_attempts_is_random_and_grows(start_hub: StartHub) -> None:
    waits: list[float] = []
    seen = Condition()

    def on_state(state: Any) -> None:
        if state.name == "waiting":
            waits.append(state.retry_in)
            seen.changed()

    client = Client("ws://127.0.0.1:1/", "token", backoff=(0.05, 0.4), on_state=on_state)
    publishing = asyncio.ensure_future(client.publish("a", 1))
    await seen.until(lambda: len(waits) >= 8)
    await client.close(timeout=0)
    assert all(wait <= min(0.05 * 2**n, 0.4) for n, wait in enumerate(waits))
    assert len(set(waits)) > 4
    with pytest.raises(UnavailableError):
        await publishing
