"""A real hub for a test: a process on free ports with a directory of its own, behind a proxy whose connections can be cut."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: The program under test.
PROGRAM = os.environ.get("EVENT_HUB_BIN", "")

_PR_SET_PDEATHSIG = 1

#: Files of the log are made in their full size, and tests have many hubs.
_SMALL_STORE = '[store]\nsegment_size = "1MiB"\ndisk_reserve = "0B"\n'


def program() -> str:
    assert PROGRAM, "EVENT_HUB_BIN is not set; `cargo xtask python` does that, or set it to a built event-hub"
    return PROGRAM


def _end_with_parent() -> None:
    """In the child, on Linux: it is killed when the tests are."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except AttributeError:
        pass


class _Proxy:
    """A port that stays the same while hubs behind it come and go."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._joined: set[Any] = set()
        #: The port of the hub; ``None`` while no hub runs.
        self.target: int | None = None
        #: Connections are refused.
        self.is_down = False
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.target is None or self.is_down:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._joined.add(asyncio.current_task())
        self._writers |= {writer, far_writer}
        await asyncio.wait({asyncio.ensure_future(_pipe(reader, far_writer)), asyncio.ensure_future(_pipe(far_reader, writer))})
        self._writers -= {writer, far_writer}
        self._joined.discard(asyncio.current_task())

    def cut(self) -> None:
        """Cuts all connections, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._joined)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Hub:
    """See the module."""

    def __init__(self, config: str, environment: Mapping[str, str]) -> None:
        self._proxy = _Proxy()
        self._directory = Path(tempfile.mkdtemp(prefix="event-hub-python-"))
        self._secret = secrets.token_hex(32)
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._http = ""
        #: Without the proxy: frames arrive as the hub sends them.
        self.direct_url = ""
        (self._directory / "hub.toml").write_text(f"{config}\n{_SMALL_STORE}")

    @classmethod
    async def start(cls, config: str = "", environment: Mapping[str, str] | None = None) -> Hub:
        hub = cls(config, environment or {})
        try:
            await hub._proxy.start()
            await hub.run()
        except BaseException:
            await hub.remove()
            raise
        return hub

    @property
    def directory(self) -> Path:
        return self._directory

    async def run(self) -> None:
        """Starts the process again, behind the same port."""
        with (self._directory / "errors").open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(program(), "serve", "--json", "--ws-port", "0", "--ops-port", "0"),
                *("--data", str(self._directory / "data"), "--config", str(self._directory / "hub.toml")),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=self._directory,
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "RUST_LOG": "warn",
                    "JWT_SECRET": self._secret,
                    "JWT_CLOCK_TOLERANCE_SEC": "0",
                    **self._environment,
                },
                preexec_fn=_end_with_parent,
            )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"the hub did not start: {(self._directory / 'errors').read_text()}"
        addresses = json.loads(line)
        self._http = addresses["http"]
        self.direct_url = addresses["ws"]
        self._proxy.target = urlsplit(addresses["ws"]).port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._proxy.port}/"

    def token(
        self,
        sub: str | None = "test",
        scopes: list[str] | None = None,
        ttl: float | None = 3600,
        policy: object = None,
        issued: float | None = None,
        secret: str | None = None,
    ) -> str:
        """A token, made here."""
        now = time.time() if issued is None else issued
        claims: dict[str, Any] = {"scopes": ["publish:**", "subscribe:**", "admin:**"] if scopes is None else scopes, "iat": int(now)}
        if sub is not None:
            claims["sub"] = sub
        if policy is not None:
            claims["policy"] = policy
        if ttl is not None:
            claims["exp"] = int(now + ttl)
        text = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
        signature = hmac.new((secret or self._secret).encode(), text.encode(), hashlib.sha256).digest()
        return f"{text}.{_base64(signature)}"

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """What an HTTP request answers, as text."""

        def send() -> str:
            data = None if body is None else json.dumps(body).encode()
            headers = {"authorization": f"Bearer {self.token()}", "content-type": "application/json"}
            asked = urllib.request.Request(self._http.rstrip("/") + path, data, headers, method=method)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(asked, timeout=30) as response:
                text = response.read().decode()
                assert isinstance(text, str)
                return text

        return await asyncio.to_thread(send)

    async def log(self, topic: str) -> list[dict[str, Any]]:
        """All records of a topic."""
        text = await self.request("GET", f"/export?topic={topic}&ndjson=1")
        return [json.loads(line) for line in text.splitlines() if line]

    def cut(self) -> None:
        """Cuts the connections, without a word."""
        self._proxy.cut()

    def set_reachable(self, is_reachable: bool) -> None:
        """Cuts the connections, and refuses new ones until the hub is reachable again."""
        self._proxy.is_down = not is_reachable
        if not is_reachable:
            self.cut()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def freeze(self) -> None:
        """Returns when no thread of the hub runs any more."""
        assert self._process is not None
        self.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self.send_signal(signal.SIGCONT)

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends the process, and waits for that."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        # Another program may get the port of a hub that has ended.
        self._proxy.target = None
        process.send_signal(number)
        if number == signal.SIGKILL:
            self.cut()
        await process.wait()

    async def remove(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGCONT)
        await self.kill()
        await self._proxy.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _part(value: object) -> str:
    return _base64(json.dumps(value).encode())
