"""Runs the conversations of ``protocol/`` against the real hub, with the frames of this package."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from event_hub_client.frames import decode, encode

from .support.fixtures import Bound, all_fixtures, connections_of
from .support.hub import Hub

FIXTURES = all_fixtures()

# The hub of the next fixture is started while one runs.
pytestmark = pytest.mark.xdist_group("fixtures")

#: Settings of fixtures that the program does not take.
_LEAST_PAYLOAD = 1024
_IMPOSSIBLE = "the program allows no limit of payloads below 1 KiB"
_LEAST_AUTH_TIMEOUT_MS = 1000


def _is_impossible(fixture: dict[str, Any]) -> bool:
    return bool(fixture.get("hub", {}).get("payload_bytes", _LEAST_PAYLOAD) < _LEAST_PAYLOAD)


def _config(fixture: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The settings of a fixture as the program takes them."""
    wanted = dict(fixture.get("hub", {}))
    schemas = wanted.pop("schemas", {})
    tolerance = wanted.pop("clock_tolerance_s", 5)
    quota = {name: wanted.pop(f"subject_{name}") for name in ("topics", "groups") if f"subject_{name}" in wanted}
    limits = []
    for name, value in wanted.items():
        if name == "auth_timeout_ms":
            value = max(value, _LEAST_AUTH_TIMEOUT_MS)
        if name.endswith("_ms"):
            limits.append(f'{name.removesuffix("_ms")} = "{value}ms"')
        else:
            limits.append(f'{name} = "{value}B"' if name == "frame_bytes" else f"{name} = {value}")
    if "frame_bytes" in wanted:
        # A frame has to carry the largest payload.
        limits.append('max_payload = "1KiB"')
    lines = ["[limits]", *limits]
    if quota:
        lines += ["[[quota]]", 'subject = "*"', *(f"{name} = {value}" for name, value in quota.items())]
    for at, target in enumerate(schemas):
        lines += ["[[schema]]", f'topic = "{target}"', f'file = "schema-{at}.json"']
    return "\n".join(lines), {"JWT_CLOCK_TOLERANCE_SEC": str(tolerance)}


class Stage:
    """A hub for one fixture, and the connections of it."""

    def __init__(self, hub: Hub, fixture: dict[str, Any]) -> None:
        self._hub = hub
        self._fixture = fixture
        self._bound = Bound("fsync")
        self._clients: dict[str, ClientConnection] = {}
        self._probes = 0

    async def set(self) -> None:
        for name, token in self._fixture.get("tokens", {}).items():
            text = self._token(token)
            self._bound.values[f"$token:{name}"] = text
            claims = decode(_base64_text(text.split(".")[1]))
            self._bound.values[f"$exp:{name}"] = claims.get("exp", 0)
        for name in connections_of(self._fixture):
            client = await connect(self._hub.direct_url, compression=None, ping_interval=None, max_size=None, proxy=None)
            self._clients[name] = client
            connection = self._fixture.get("connections", {}).get(name, {"token": ""})
            if connection["token"] is None:
                continue
            token = self._bound.fill(f"$token:{connection['token']}") if connection["token"] else self._hub.token(sub=None)
            await client.send(encode({"op": "AUTH", "token": token}))
            answer = await self._next(name)
            assert answer["op"] == "OK", f"connection {name}: {answer}"

    def _token(self, token: dict[str, Any]) -> str:
        ttl = token.get("ttl_s", 3600)
        return self._hub.token(
            sub=token.get("sub"),
            scopes=token.get("scopes", []),
            policy=token.get("policy"),
            ttl=None if token.get("without_exp") else max(ttl, 0),
            issued=time.time() + min(ttl, 0),
            secret="another secret, as long as it has to be" if token.get("forged") else None,
        )

    async def act(self, step: dict[str, Any]) -> None:
        if "send" in step:
            await self._clients[step["from"]].send(encode(self._bound.fill(step["send"])))
        elif "text" in step:
            await self._clients[step["from"]].send(step["text"])
        elif "binary" in step:
            await self._clients[step["from"]].send(step["binary"].encode())
        elif "expect" in step:
            await self._expect(step["to"], [step["expect"]])
        elif "any_order" in step:
            await self._expect(step["to"], list(step["any_order"]))
        elif "silent" in step:
            await self._silent(step["silent"])
        elif "closed" in step:
            await self._closed(step["to"], step["closed"])
        elif "leave" in step:
            self._clients.pop(step["leave"]).transport.abort()
        elif step["hub"] == "drain":
            self._hub.send_signal(signal.SIGTERM)
        else:
            await self._hub.request("POST", "/revoke", {"sub": step["hub"]["revoke"]})

    async def end(self) -> None:
        """At the end nobody has got more than the fixture says."""
        for name in list(self._clients):
            await self._silent(name)

    async def leave(self) -> None:
        for client in self._clients.values():
            client.transport.abort()
        self._clients.clear()

    async def _expect(self, to: str, patterns: list[Any]) -> None:
        while patterns:
            frame = await self._next(to)
            differences = []
            for at, pattern in enumerate(patterns):
                difference = self._bound.difference(pattern, frame)
                if difference is None:
                    del patterns[at]
                    break
                differences.append(difference)
            else:
                raise AssertionError("\n".join([*differences, f"expected by {to}: {patterns}", f"came: {frame}"]))

    async def _silent(self, name: str) -> None:
        """Nothing waits for this connection: a request that no hub has is answered next."""
        self._probes += 1
        corr = f"probe-{self._probes}"
        await self._clients[name].send(encode({"op": "PROBE", "corr": corr}))
        frame = await self._next(name)
        assert frame.get("corr") == corr, f"nothing was expected by {name}, came: {frame}"

    async def _closed(self, name: str, code: int) -> None:
        client = self._clients.pop(name)
        with pytest.raises(ConnectionClosed):
            while True:
                await asyncio.wait_for(client.recv(), 30)
        assert client.close_code == code

    async def _next(self, name: str) -> dict[str, Any]:
        frame = decode(await asyncio.wait_for(self._clients[name].recv(), 30))
        assert isinstance(frame, dict)
        return frame


def _base64_text(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


async def _start(fixture: dict[str, Any]) -> Hub:
    config, environment = _config(fixture)
    hub = Hub(config, environment)
    for at, schema in enumerate(fixture.get("hub", {}).get("schemas", {}).values()):
        (hub.directory / f"schema-{at}.json").write_text(encode(schema))
    await hub.run()
    return hub


class Hubs:
    """Starts the hubs of the next fixtures while one runs: a start takes longer than a fixture."""

    AHEAD = 3

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._possible = [fixture for _, fixture in FIXTURES if not _is_impossible(fixture)]
        self._starting: dict[int, asyncio.Task[Hub]] = {}

    def take(self, fixture: dict[str, Any]) -> asyncio.Task[Hub]:
        at = next(at for at, other in enumerate(self._possible) if other is fixture)
        for following in self._possible[at : at + 1 + self.AHEAD]:
            if id(following) not in self._starting:
                self._starting[id(following)] = self.loop.create_task(_start(following))
        return self._starting[id(fixture)]

    def stop(self) -> None:
        async def stop() -> None:
            for started in await asyncio.gather(*self._starting.values(), return_exceptions=True):
                if isinstance(started, Hub):
                    await started.remove()

        self.loop.run_until_complete(stop())
        self.loop.close()


@pytest.fixture(scope="module")
def hubs() -> Iterator[Hubs]:
    hubs = Hubs()
    yield hubs
    hubs.stop()


@pytest.mark.parametrize(("file", "fixture"), FIXTURES, ids=[f"{file}: {fixture['name']}" for file, fixture in FIXTURES])
def test_fixture(hubs: Hubs, file: str, fixture: dict[str, Any]) -> None:
    if _is_impossible(fixture):
        pytest.skip(_IMPOSSIBLE)

    async def run() -> None:
        hub = await hubs.take(fixture)
        stage = Stage(hub, fixture)
        try:
            await stage.set()
            for at, step in enumerate(fixture["steps"]):
                try:
                    await stage.act(step)
                except Exception as error:
                    raise AssertionError(f"protocol/{file}.json, step {at + 1}: {error!r}") from error
            await stage.end()
        finally:
            await stage.leave()
            await hub.kill()

    hubs.loop.run_until_complete(asyncio.wait_for(run(), 60))


def test_fixtures_are_found_and_few_are_impossible() -> None:
    impossible = [fixture["name"] for _, fixture in FIXTURES if _is_impossible(fixture)]
    assert len(FIXTURES) > 100
    assert len(impossible) == 3, impossible


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": 1}, {"a": "1"}),
        (1, True),
        (1, 1.0),
        (2**53, 2**53 + 1),
        ("$uuid", "not one"),
        ("$number", "1"),
        ("$text", 1),
        ("$durable", "memory"),
        ("$no_such", 1),
        ({"$text": ["one", "two"]}, "one"),
        (["$text:x", "$text:x"], ["a", "b"]),
    ],
)
def test_every_kind_of_difference_is_seen(pattern: Any, value: Any) -> None:
    assert Bound("fsync").difference(pattern, value) is not None


def test_placeholders_are_bound_and_filled() -> None:
    bound = Bound("fsync")
    id = "00000000-0000-4000-8000-000000000001"
    assert bound.difference({"a": ["$uuid:x", "$uuid:x"], "n": "$number:n"}, {"a": [id, id], "n": 1}) is None
    assert bound.fill({"ids": ["$uuid:x"], "n": "$number:n"}) == {"ids": [id], "n": 1}
    assert bound.fill([{"$repeat": ["ab", 2]}, {"$list": [1, 2]}]) == ["abab", [1, 1]]
    assert json.loads(encode(bound.fill("$uuid:new")))
