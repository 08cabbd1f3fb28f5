"""What needs no hub: JSON, derived ids, times of tokens."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest

from event_hub_client import BadRequestError, ForbiddenError, HubError, errors
from event_hub_client.connection import _renewal_wait
from event_hub_client.frames import decode, encode, fields_of, refusal_of
from event_hub_client.ids import derived_id


@pytest.mark.parametrize(
    "text",
    ["9007199254740993", "-170141183460469231731687303715884105728", "1" * 5000, "[0.5,true,null,{}]", '"\\ud800"', '"ü"', "1E+400"],
)
def test_json_comes_out_as_it_went_in(text: str) -> None:
    assert encode(decode(text)) == text


def test_numbers_are_exact() -> None:
    assert decode("[9007199254740993,0.1,1e400]") == [2**53 + 1, 0.1, Decimal("1e400")]
    assert encode([2**53 + 1, Decimal("0.30000000000000000000000000001"), {"a": Decimal(7)}]) == (
        '[9007199254740993,0.30000000000000000000000000001,{"a":7}]'
    )


def test_random_values_survive() -> None:
    def value(depth: int) -> Any:
        kind = random.randrange(7 if depth else 5)
        if kind == 0:
            return random.choice([None, True, False])
        if kind == 1:
            return random.randrange(-(2 ** random.randrange(1, 200)), 2 ** random.randrange(1, 200))
        if kind == 2:
            return random.uniform(-1e9, 1e9)
        if kind in (3, 4):
            return "".join(chr(random.choice([0, 10, 34, 92, 0x7F, 0xFC, 0x2028, 0xD800, 0x1F600])) for _ in range(random.randrange(5)))
        if kind == 5:
            return [value(depth - 1) for _ in range(random.randrange(4))]
        return {value(0).__repr__(): value(depth - 1) for _ in range(random.randrange(4))}

    for _ in range(500):
        payload = value(4)
        assert decode(encode(payload)) == payload


@pytest.mark.parametrize("payload", [math.nan, -math.inf, Decimal("NaN"), {1, 2}, b"bytes", {(1, 2): 3}])
def test_what_json_cannot_say_is_refused(payload: object) -> None:
    with pytest.raises(BadRequestError):
        encode(payload)


def test_what_holds_itself_is_refused() -> None:
    payload: list[object] = []
    payload.append(payload)
    with pytest.raises(BadRequestError):
        encode(payload)


def test_absent_fields_are_left_out() -> None:
    assert fields_of({"op": "PUBLISH", "topic": "a", "group": None}) == '"op":"PUBLISH","topic":"a"'


def test_refusals_have_a_class_for_every_code() -> None:
    error = refusal_of({"code": "forbidden", "msg": "no", "id": "x"})
    assert isinstance(error, ForbiddenError)
    assert (str(error), error.id) == ("forbidden: no", "x")
    limited = refusal_of({"code": "rate_limited", "msg": "slow", "retry_after_ms": 250})
    assert limited is not None and limited.retry_after == 0.25
    unknown = refusal_of({"code": "brand_new", "msg": "?"})
    assert type(unknown) is HubError and unknown.code == "brand_new"
    assert refusal_of({"op": "OK"}) is None
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HubError) and kind is not HubError]
    assert len({kind.default_code for kind in classes}) == len(classes) == 26


def test_derived_ids_are_those_of_the_typescript_sdk() -> None:
    # Of `uuid5(DERIVED, JSON.stringify(["g", "orders", "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00", 0]))` there.
    assert derived_id("g", "orders", "7f1c2a90-52c1-4b7e-8a55-0c9f3e2d1b00", 0) == "58525a86-1634-5191-a046-bfdf1378c483"


def test_a_token_is_renewed_at_80_percent_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("event_hub_client.connection.time.time", lambda: 1_000.0)
    assert _renewal_wait("opaque", {}) is None
    assert _renewal_wait("opaque", {"exp": 1_100}) == 80
    assert _renewal_wait(None, {"exp": 900}) == 1
    # {"iat": 1050}: the clock here is behind.
    assert _renewal_wait("x.eyJpYXQiOiAxMDUwfQ.x", {"exp": 1_100}) == 40
