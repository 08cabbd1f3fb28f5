"""Frames: JSON text in both directions."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .errors import BadRequestError, HubError, error_of

Answer = dict[str, Any]


def encode(value: object) -> str:
    """JSON without spaces. Raises :class:`BadRequestError` for what JSON cannot say."""
    try:
        text = _dumps(value, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            # Lone surrogates have no UTF-8, but an escape.
            text = _dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"the value cannot be written as JSON: {error}") from error
    return text


def _dumps(value: object, *, ensure_ascii: bool) -> str:
    # The encoder writes no digits but those of `int` and `float`: decimals are put in afterwards.
    decimals: list[str] = []
    mark = ""

    def default(part: object) -> str:
        nonlocal mark
        if not isinstance(part, Decimal) or not part.is_finite():
            raise TypeError(f"it has {part!r} in it" if isinstance(part, Decimal) else f"it has a {type(part).__name__} in it")
        mark = mark or secrets.token_hex(16)
        decimals.append(str(part))
        return f"{mark}{len(decimals) - 1}."

    text = json.dumps(value, separators=(",", ":"), ensure_ascii=ensure_ascii, allow_nan=False, default=default)
    for index, digits in enumerate(decimals):
        text = text.replace(f'"{mark}{index}."', digits)
    return text


def decode(text: str | bytes) -> Any:
    """A frame as Python values. Integers are exact; a number that neither ``int`` nor ``float`` can hold is a ``Decimal``."""
    try:
        return json.loads(text, parse_float=_parse_float)
    except ValueError:
        # Python refuses to parse integers of several thousand digits as `int`.
        return json.loads(text, parse_float=_parse_float, parse_int=_parse_int)


def _parse_float(text: str) -> float | Decimal:
    value = float(text)
    return value if math.isfinite(value) else Decimal(text)


def _parse_int(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def fields_of(frame: Mapping[str, Any]) -> str:
    """The fields of a frame without the braces. ``None`` is left out."""
    return encode({name: value for name, value in frame.items() if value is not None})[1:-1]


def refusal_of(answer: Mapping[str, Any]) -> HubError | None:
    """The error that an answer, or a result of a batch, carries."""
    code = answer.get("code")
    if code is None:
        return None
    after = answer.get("retry_after_ms")
    return error_of(str(code), str(answer.get("msg", "")), id=answer.get("id"), retry_after=None if after is None else after / 1000)
