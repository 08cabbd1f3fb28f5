"""What the hub says of a group."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from .hub import Hub


async def lag_of(hub: Hub, topic: str, group: str) -> dict[str, Any]:
    answer = json.loads(await hub.request("GET", f"/lag?topic={topic}&group={group}"))
    assert isinstance(answer, dict)
    return answer


async def settled(hub: Hub, topic: str, group: str) -> None:
    """Waits until the group has settled every event."""
    for _ in range(600):
        lag = await lag_of(hub, topic, group)
        if lag["lag"] == 0 and lag["inflight"] == 0:
            return
        # There is no signal for it: the hub is asked again.
        await asyncio.sleep(0.05)
    raise AssertionError(f"{group} has not settled {topic}: {lag}")


async def in_flight(hub: Hub, topic: str, group: str, count: int) -> None:
    """Waits until members hold so many events of the group."""
    for _ in range(600):
        lag = await lag_of(hub, topic, group)
        if lag["inflight"] == count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{group} does not hold {count} of {topic}: {lag}")
