"""Tests may be coroutines: each runs on a loop of its own, and may take five minutes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from .support.hub import Hub

_TEST_TIMEOUT = 300.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    stack = pyfuncitem.funcargs.get("cleanup")

    async def run() -> None:
        try:
            await asyncio.wait_for(pyfuncitem.obj(**arguments), _TEST_TIMEOUT)
        finally:
            if isinstance(stack, AsyncExitStack):
                await stack.aclose()

    asyncio.run(run())
    return True


@pytest.fixture
def cleanup() -> AsyncExitStack:
    """What a test opens; closed on the loop of the test."""
    return AsyncExitStack()


StartHub = Callable[..., Awaitable[Hub]]


@pytest.fixture
def start_hub(cleanup: AsyncExitStack) -> StartHub:
    """Starts a hub of the test's own: ``hub = await start_hub()``."""

    async def start(config: str = "", **environment: str) -> Hub:
        hub = await Hub.start(config, environment)
        cleanup.push_async_callback(hub.remove)
        return hub

    return start
