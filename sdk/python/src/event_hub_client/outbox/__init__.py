"""Rows for the outbox of a service, in the service's own transaction.

``event_hub_client.outbox.sqlalchemy`` and ``event_hub_client.outbox.django`` write them; this module checks them. A row that no hub would
publish is refused before it is written: a drainer would park it, and the service would not hear of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BadRequestError, ForbiddenError, TooLargeError
from ..frames import encode
from ..ids import new_id, parse_id

_TOPIC_BYTES = 200
_KEY_BYTES = 512
_HEADERS = 64
_HEADERS_BYTES = 8 * 1024
_NESTING = 128
#: A payload, unless the hub is told otherwise.
PAYLOAD_BYTES = 1024 * 1024
#: What a column of 64 bits holds.
_LEAST_ORD, _GREATEST_ORD = -(2**63), 2**63 - 1

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")
_SEGMENTS = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,39}\.)?[A-Za-z_][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True)
class CheckedRow:
    """A row as it is written: all but numbers are text."""

    id: str
    topic: str
    #: JSON.
    payload: str
    key: str | None
    #: JSON, an object of strings.
    headers: str | None
    ord: int | None


def checked_row(
    topic: str,
    payload: Any,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    id: str | None = None,
    ord: int | None = None,
    max_payload: int = PAYLOAD_BYTES,
) -> CheckedRow:
    """Refuses a row that no hub would publish, with the errors that the hub would answer with."""
    row_id = new_id() if id is None else parse_id(id)
    if row_id is None:
        raise BadRequestError(f"id is {id!r}; it must be a UUID, or left out")
    _check_topic(topic)
    if key is not None:
        _check_key(key)
    if ord is not None and (not isinstance(ord, int) or isinstance(ord, bool) or not _LEAST_ORD <= ord <= _GREATEST_ORD):
        raise BadRequestError(f"ord is {ord!r}; it must be an integer of 64 bits")
    text = encode(payload)
    if (size := _bytes(text)) > max_payload:
        raise TooLargeError(f"payload has {size} bytes; at most {max_payload} are allowed")
    if (depth := _depth(text)) > _NESTING:
        raise BadRequestError(f"payload is nested {depth} deep; at most {_NESTING} is allowed")
    if headers is not None:
        _check_headers(headers)
    return CheckedRow(row_id, topic, text, key, encode(dict(headers)) if headers else None, ord)


def quoted_table(table: str) -> str:
    """A table's name for SQL."""
    if not isinstance(table, str) or _TABLE.fullmatch(table) is None:
        raise BadRequestError(
            f"the table is {table!r}; it must be letters, digits and underscores, at most 40, perhaps behind a schema and a dot"
        )
    return ".".join(f'"{part}"' for part in table.split("."))


def insert_statement(table: str, placeholder: str, is_postgres: bool) -> str:
    """The INSERT of a row. ``placeholder`` has ``{}`` where the column's name may be."""
    types = {"id": "uuid", "payload": "json", "headers": "json"} if is_postgres else {}
    columns = ("id", "topic", "key", "ord", "payload", "headers")
    values = [
        f"CAST({placeholder.format(column)} AS {types[column]})" if column in types else placeholder.format(column) for column in columns
    ]
    return f"INSERT INTO {quoted_table(table)} ({', '.join(columns)}) VALUES ({', '.join(values)})"


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise BadRequestError(f"topic is a {type(topic).__name__}; it must be a string")
    segments = topic.split(".")
    if len(segments) > 1 and (segments[0] == "dlq" or segments[-1] == "snapshot"):
        raise ForbiddenError(f'topic "{topic}" is written by the hub alone: it is derived from another; publish there')
    if (size := _bytes(topic)) > _TOPIC_BYTES:
        raise BadRequestError(f'topic name "{topic[:48]}…" has {size} bytes; at most {_TOPIC_BYTES} are allowed')
    if _SEGMENTS.fullmatch(topic) is None:
        raise BadRequestError(f'topic name "{topic}" is not segments of [A-Za-z0-9_-] with single dots between them')
    if segments[0] == "_hub":
        raise BadRequestError(f'topic name "{topic}" begins with _hub, which is for the hub\'s own topics; choose another')


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise BadRequestError(f"key is a {type(key).__name__}; it must be a string, or left out")
    if (size := _bytes(key)) > _KEY_BYTES:
        raise BadRequestError(f"key has {size} bytes; at most {_KEY_BYTES} are allowed")
    if "\0" in key:
        raise BadRequestError("key has a NUL character; those are reserved for the hub")


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > _HEADERS:
        raise BadRequestError(f"headers has {len(headers)} entries; at most {_HEADERS} are allowed")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadRequestError(f"header {name!r} is no pair of strings")
        if name == "" or "\0" in name or name.lower().startswith("x-hub-"):
            raise BadRequestError(f"header {name!r} cannot be used: it is empty, has a NUL character, or begins with x-hub-")
    size = sum(_bytes(name) + _bytes(value) for name, value in headers.items())
    if size > _HEADERS_BYTES:
        raise BadRequestError(f"headers have {size} bytes in names and values; at most {_HEADERS_BYTES} are allowed")


def _bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _depth(json: str) -> int:
    """How deep JSON is nested."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", json)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest
