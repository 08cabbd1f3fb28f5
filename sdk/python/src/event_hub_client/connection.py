"""The connection to a hub: one after the other, for as long as the client lives.

One task opens a socket, authenticates, and waits until the socket breaks; then it waits and begins again. What is sent goes through
:meth:`Connection.ask`, which calls back with the answer, or with ``None`` if the connection broke before it came.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import random
import ssl as ssl_module
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, Union

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from .alarm import Alarm, now
from .errors import TOKEN_CODES, ConnectError, HubError, TokenFailedError
from .frames import Answer, decode, fields_of, refusal_of
from .model import State

_TOKEN_TIMEOUT = 30.0
_OPEN_TIMEOUT = 10.0
_AUTH_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 1.0
_DROP_TIMEOUT = 1.0
_PROBE_TIMEOUT = 5.0
#: A connection over which nothing comes for so long is asked for a sign of life.
_SILENCE = 25.0
#: A connection that lasted so long makes the failures before it forgotten.
_STABLE_AFTER = 5.0
#: The longest wait after a hub has said that it restarts.
_RESTART_WAIT = 1.0
#: The least wait, so that no draw of the jitter makes a loop without a pause.
_LEAST_WAIT = 0.02
_LEAST_RENEWAL = 1.0
_LONGEST_RENEWAL_WAIT = 30.0
#: The part of a token's life after which it is renewed.
_RENEW_AT = 0.8

_POLICY_VIOLATION = 1008
_TOO_LARGE = 1009
_SERVICE_RESTART = 1012

#: A token, or a function that gets one. The function is given the refusal of the token before, or ``None``: after a refusal, a
#: token from a cache would be refused again.
TokenFunction = Callable[[Union[HubError, None]], Union[str, Awaitable[str]]]
TokenSource = Union[str, TokenFunction, None]

OnAnswer = Callable[[Union[Answer, None]], None]

log = logging.getLogger("event_hub_client")


class Listener(Protocol):
    """What the rest of the client is told."""

    def on_state(self, state: State) -> None: ...

    def on_ready(self, is_new: bool) -> None:
        """Frames may be sent. Called again whenever more may be sent than before."""

    def on_down(self) -> None:
        """The connection is gone, and with it all requests without an answer."""

    def on_too_large(self) -> None:
        """Before ``on_down``: the hub refused to read a frame because of its size."""

    def on_frame(self, frame: dict[str, Any]) -> None:
        """EVENT, EVENTS or LAGGED."""

    def on_subscription_ended(self, topic: str, group: str | None, error: HubError) -> None: ...

    def on_failed(self, error: HubError) -> None:
        """An attempt has failed, or a connection was lost. Another attempt follows."""

    def on_ended(self, error: HubError | None) -> None:
        """It is over for good."""


class _Broken(Exception):
    """A connection, or the attempt to open one, is over."""

    def __init__(self, error: HubError, *, close_code: int | None = None, is_refusal: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.close_code = close_code
        #: The hub did not accept the AUTH.
        self.is_refusal = is_refusal


class Connection:
    """See the module."""

    def __init__(
        self,
        urls: Sequence[str],
        token: TokenSource,
        listener: Listener,
        *,
        backoff: tuple[float, float],
        ssl: ssl_module.SSLContext | None,
    ) -> None:
        self._urls = urls
        self._token = token
        self._listener = listener
        self._first_wait, self._longest_wait = backoff
        self._ssl = ssl
        self.state = State("idle")
        self._task: asyncio.Task[None] | None = None
        self._attempts = 0
        self._corrs = 0
        self._answers: dict[str, OnAnswer] = {}
        self._unsent: deque[str] = deque()
        self._has_unsent = asyncio.Event()
        self._has_expired = asyncio.Event()
        self._broken: asyncio.Future[None] | None = None
        self._socket: ClientConnection | None = None
        self._features: frozenset[str] = frozenset()
        self._heard_at = 0.0
        self._heard_frames = 0
        self._is_flooded = False
        #: What the hub said before it closed the connection.
        self._why_closing: HubError | None = None

    # What the client calls.

    def start(self) -> None:
        """Connects, unless it does so already."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="event-hub connection")

    def rest(self) -> None:
        """Stops trying to connect: nobody needs a connection now."""
        if self.state.name == "waiting" and self._task is not None:
            self._task.cancel()
            self._task = None
            self._set(State("idle"))

    async def close(self) -> None:
        """Ends the connection for good."""
        task, self._task = self._task, None
        if self.state.name == "closed":
            return
        socket = self._socket
        if socket is not None and self.state.name == "ready":
            try:
                # Once a PING is answered, the hub has carried out all that was sent.
                await asyncio.wait_for(self._request('"op":"PING"'), _CLOSE_TIMEOUT)
                self._set(State("closing"))
                await asyncio.wait_for(self._hang_up(socket), _CLOSE_TIMEOUT)
            except (asyncio.TimeoutError, ConnectionClosed):
                pass
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._end(None)

    async def _request(self, fields: str) -> Answer | None:
        """Sends a request and returns its answer; nothing if the connection breaks."""
        result: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def answered(answer: Answer | None) -> None:
            if not result.done():
                result.set_result(answer)

        self.ask(fields, answered)
        return await result

    def can_send(self, *, settles: bool = False) -> bool:
        """Whether a request may be sent now. What settles events may also be sent when the token has run out."""
        return self.state.name == "ready" and (settles or not self.state.is_expired)

    def has(self, feature: str) -> bool:
        """Whether the hub has a feature of the protocol."""
        return feature in self._features

    def ask(self, fields: str, on_answer: OnAnswer) -> None:
        """Sends a request, given as its fields without braces. Only after ``can_send``."""
        self._corrs += 1
        corr = str(self._corrs)
        self._answers[corr] = on_answer
        self._unsent.append(f'{{"corr":"{corr}",{fields}}}')
        self._has_unsent.set()

    # The life of one connection after the other.

    async def _run(self) -> None:
        try:
            await self._stay_connected()
        except Exception as error:
            log.exception("the connection's task failed")
            self._end(ConnectError(f"the client has a bug: {error!r}"))

    async def _stay_connected(self) -> None:
        refused: HubError | None = None
        tries = 0
        while True:
            began = now()
            ready_since: list[float] = []
            try:
                self._set(State("token", tries))
                token = await self._fetch_token(refused)
                await self._serve(token, tries, ready_since)
                raise AssertionError("a connection ends with an error")
            except _Broken as broken:
                if self.state.name == "closing":
                    return
                error, code = broken.error, broken.close_code
                is_about_token = error.code in TOKEN_CODES
                if ready_since:
                    refused = None
                    tries = 0 if now() - ready_since[0] >= _STABLE_AFTER else tries
                if is_about_token and not callable(self._token):
                    return self._end(error)
                if broken.is_refusal and is_about_token and refused is None:
                    # Once at once: the function may have given a token from a cache.
                    refused = error
                    continue
                if broken.is_refusal and is_about_token:
                    refused = error
                wait = self._wait_after(broken, tries)
                log.info("connection lost, next attempt in %.3f s: %s (close code %s)", wait, error, code)
                tries += 1
                self._set(State("waiting", tries, retry_in=wait, error=error))
                self._listener.on_failed(error)
            await asyncio.sleep(max(wait, began + _LEAST_WAIT - now()))

    def _wait_after(self, broken: _Broken, tries: int) -> float:
        if broken.is_refusal and broken.error.retry_after is not None:
            return broken.error.retry_after
        if broken.close_code == _POLICY_VIOLATION and self._is_flooded:
            return self._longest_wait
        if broken.close_code == _SERVICE_RESTART and tries == 0:
            return min(max(random.random() * _RESTART_WAIT, self._first_wait), self._longest_wait)
        most = min(self._first_wait * 2.0 ** min(tries, 30), self._longest_wait)
        return max(most * random.random(), min(_LEAST_WAIT, self._longest_wait))

    async def _fetch_token(self, refused: HubError | None) -> str | None:
        source = self._token
        if source is None or isinstance(source, str):
            return source
        try:
            return await asyncio.wait_for(_call_token_function(source, refused), _TOKEN_TIMEOUT)
        except asyncio.TimeoutError:
            raise _Broken(TokenFailedError(f"no token within {_TOKEN_TIMEOUT:.0f} s")) from None
        except Exception as error:
            failed = TokenFailedError(f"the token function raised {error!r}")
            failed.__cause__ = error
            raise _Broken(failed) from error

    async def _serve(self, token: str | None, tries: int, ready_since: list[float]) -> None:
        """Opens a connection and keeps it until it breaks, which it says by raising :class:`_Broken`."""
        self._set(State("opening", tries))
        socket = await self._open()
        self._socket = socket
        self._broken = broken = asyncio.get_running_loop().create_future()
        self._features = frozenset()
        self._heard_at, self._heard_frames = now(), 0
        self._is_flooded, self._why_closing = False, None
        self._has_expired.clear()
        keepers: list[asyncio.Task[None]] = []

        def accepted(answer: Answer | None) -> None:
            deadline.cancel()
            if answer is None:
                return
            error = refusal_of(answer)
            if error is not None:
                return self._break(_Broken(error, is_refusal=True))
            ready_since.append(now())
            keepers.append(loop.create_task(self._renew(token, answer)))
            keepers.append(loop.create_task(self._probe()))
            self._authenticated(answer)
            self._listener.on_ready(True)

        loop = asyncio.get_running_loop()
        keepers += [loop.create_task(self._read(socket)), loop.create_task(self._write(socket))]
        no_answer = _Broken(ConnectError(f"no answer to AUTH within {_AUTH_TIMEOUT:.0f} s"))
        deadline = Alarm(lambda: self._break(no_answer))
        deadline.set(now() + _AUTH_TIMEOUT)
        self._set(State("authenticating", tries))
        self.ask(fields_of({"op": "AUTH", "token": token}), accepted)
        try:
            await broken
        except _Broken as lost:
            if lost.close_code == _TOO_LARGE and self._answers:
                self._listener.on_too_large()
            raise
        finally:
            deadline.cancel()
            self._socket = self._broken = None
            for keeper in keepers:
                keeper.cancel()
            self._down()
            await asyncio.gather(*keepers, return_exceptions=True)
            # A hub that does not answer is not waited for.
            await asyncio.wait({loop.create_task(self._hang_up(socket))}, timeout=_DROP_TIMEOUT)

    async def _open(self) -> ClientConnection:
        url = self._urls[self._attempts % len(self._urls)]
        self._attempts += 1
        # The client has its own signs of life, which go the whole way to the hub's session.
        options: dict[str, Any] = {"ssl": self._ssl} if self._ssl is not None else {}
        opening = connect(
            url, open_timeout=None, ping_interval=None, close_timeout=_DROP_TIMEOUT, max_size=None, compression=None, **options
        )
        try:
            return await asyncio.wait_for(_opened(opening), _OPEN_TIMEOUT)
        except asyncio.TimeoutError:
            raise _Broken(ConnectError(f"{url}: no connection within {_OPEN_TIMEOUT:.0f} s")) from None
        except (OSError, EOFError, InvalidHandshake, InvalidURI, ValueError) as error:
            failed = ConnectError(f"{url}: {error or repr(error)}")
            failed.__cause__ = error
            raise _Broken(failed) from error

    def _authenticated(self, answer: Answer) -> None:
        self._features = frozenset(answer.get("features") or ())
        self._set(State("ready", sub=answer.get("sub"), exp=answer.get("exp")))

    def _break(self, why: _Broken) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_exception(why)

    def _down(self) -> None:
        lost, self._answers = self._answers, {}
        self._unsent.clear()
        for on_answer in lost.values():
            on_answer(None)
        self._listener.on_down()

    def _end(self, error: HubError | None) -> None:
        if self.state.name != "closed":
            self._set(State("closed", error=error))
            self._listener.on_ended(error)

    def _set(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._listener.on_state(state)

    @staticmethod
    async def _hang_up(socket: ClientConnection) -> None:
        await socket.close()

    # Tasks of one connection.

    async def _read(self, socket: ClientConnection) -> None:
        try:
            while True:
                message = await socket.recv()
                self._heard_at = now()
                self._heard_frames += 1
                self._hear(message)
        except ConnectionClosed:
            code, reason = socket.close_code, socket.close_reason
            error = self._why_closing or ConnectError(f"the connection was closed with {code} {reason or ''}".strip())
            self._break(_Broken(error, close_code=code))
        except Exception as error:
            log.exception("a frame could not be handled")
            self._break(_Broken(ConnectError(f"a frame could not be handled: {error!r}")))

    async def _write(self, socket: ClientConnection) -> None:
        try:
            while True:
                while self._unsent:
                    await socket.send(self._unsent.popleft())
                self._has_unsent.clear()
                await self._has_unsent.wait()
        except ConnectionClosed:
            # What the hub said last is still to be read; that ends the connection.
            pass

    async def _renew(self, token: str | None, answer: Answer) -> None:
        """Renews a token before it ends. The one in force stays in force until the hub has accepted another."""
        if not callable(self._token):
            return
        failures = 0
        refused: HubError | None = None
        wait = _renewal_wait(token, answer)
        while True:
            try:
                await asyncio.wait_for(self._has_expired.wait(), wait)
            except asyncio.TimeoutError:
                pass
            self._has_expired.clear()
            try:
                token = await self._fetch_token(refused)
                auth = fields_of({"op": "AUTH", "token": token})
                accepted = await asyncio.wait_for(self._request(auth), _AUTH_TIMEOUT)
                if accepted is None:
                    return
                refused = refusal_of(accepted)
                if refused is not None:
                    raise _Broken(refused)
                # It may have run out while the next one was on its way.
                self._has_expired.clear()
                failures, wait = 0, _renewal_wait(token, accepted)
                self._authenticated(accepted)
                self._listener.on_ready(False)
            except (_Broken, asyncio.TimeoutError) as failed:
                wait = min(_LEAST_RENEWAL * 2**failures, _LONGEST_RENEWAL_WAIT)
                failures += 1
                log.warning("the token could not be renewed, next attempt in %.0f s: %s", wait, failed or "no answer to AUTH")

    async def _probe(self) -> None:
        """Asks a silent hub for a sign of life."""
        while True:
            silence = now() - self._heard_at
            if silence < _SILENCE:
                await asyncio.sleep(_SILENCE - silence)
                continue
            frames = self._heard_frames
            self.ask('"op":"PING"', lambda _: None)
            until = now() + _PROBE_TIMEOUT
            await asyncio.sleep(_PROBE_TIMEOUT)
            # A loop that was blocked has not read what came meanwhile.
            if now() - until > 1:
                continue
            if self._heard_frames == frames:
                return self._break(_Broken(ConnectError(f"no answer to PING within {_PROBE_TIMEOUT:.0f} s")))

    # What comes.

    def _hear(self, message: str | bytes) -> None:
        frame: dict[str, Any] = decode(message)
        op = frame.get("op")
        if op in ("EVENT", "EVENTS", "LAGGED"):
            self._listener.on_frame(frame)
        elif op in ("OK", "ERR"):
            self._hear_answer(frame)

    def _hear_answer(self, answer: Answer) -> None:
        if answer.get("code") == "rate_limited":
            self._is_flooded = True
        corr = answer.get("corr")
        on_answer = None if corr is None else self._answers.pop(corr, None)
        if on_answer is not None:
            return on_answer(answer)
        error = refusal_of(answer)
        if error is None:
            return
        if answer.get("topic") is not None:
            return self._listener.on_subscription_ended(answer["topic"], answer.get("group"), error)
        if error.code == "token_expired" and self.state.name == "ready":
            if not callable(self._token):
                return self._break(_Broken(error))
            state = self.state
            self._has_expired.set()
            return self._set(State("ready", sub=state.sub, exp=state.exp, is_expired=True))
        # The hub is about to close the connection, and says why.
        self._why_closing = error
        log.warning("the hub reports an error: %s", error)


async def _opened(opening: connect) -> ClientConnection:
    return await opening


async def _call_token_function(source: TokenFunction, refused: HubError | None) -> str:
    # A function that blocks must not block the loop.
    if inspect.iscoroutinefunction(source):
        token = await source(refused)
    else:
        result = await asyncio.get_running_loop().run_in_executor(None, source, refused)
        token = await result if inspect.isawaitable(result) else result
    if not isinstance(token, str):
        raise TypeError(f"the token function returned a {type(token).__name__}; a string is expected")
    return token


def _renewal_wait(token: str | None, answer: Answer) -> float | None:
    """Seconds until the token is to be renewed; ``None`` if it does not end."""
    exp = answer.get("exp")
    if exp is None:
        return None
    left = exp - time.time()
    issued = _issued_at(token)
    # A clock that is behind would say too much.
    lifetime = left if issued is None else min(left, exp - issued)
    return max(float(lifetime) * _RENEW_AT, _LEAST_RENEWAL)


def _issued_at(token: str | None) -> float | None:
    """``iat`` of a token whose claims can be read."""
    try:
        part = (token or "").split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        issued = claims.get("iat")
    except (IndexError, ValueError, AttributeError):
        # Not a JWT. That is for the hub to say.
        return None
    return float(issued) if isinstance(issued, (int, float)) else None
