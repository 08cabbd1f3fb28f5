"""The protocol fixtures as they are written, and their placeholders; ``protocol/README.md`` says what each part means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from event_hub_client.frames import decode, encode

DIRECTORY = Path(__file__).parents[4] / "protocol"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def all_fixtures() -> list[tuple[str, dict[str, Any]]]:
    """Every fixture, with the name of its file."""
    return [(path.stem, fixture) for path in sorted(DIRECTORY.glob("*.json")) for fixture in decode(path.read_text())["fixtures"]]


def connections_of(fixture: dict[str, Any]) -> list[str]:
    """The connections that a fixture has."""
    names = [step.get("from") or step.get("to") or step.get("silent") or step.get("leave") for step in fixture["steps"]]
    return list(dict.fromkeys(name for name in names if name is not None))


class Bound:
    """What placeholders with a name stand for, by their whole text."""

    def __init__(self, durable: str) -> None:
        self._durable = durable
        self.values: dict[str, Any] = {}

    def fill(self, pattern: Any) -> Any:
        """What is sent for a pattern. A ``$uuid:name`` that was not seen yet is made."""
        if isinstance(pattern, str):
            return self._value_of(pattern) if pattern.startswith("$") else pattern
        if isinstance(pattern, list):
            return [self.fill(part) for part in pattern]
        if not isinstance(pattern, dict):
            return pattern
        if len(pattern) == 1 and "$repeat" in pattern:
            text, times = pattern["$repeat"]
            return text * times
        if len(pattern) == 1 and "$list" in pattern:
            part, times = pattern["$list"]
            return [self.fill(part) for _ in range(times)]
        return {name: self.fill(part) for name, part in pattern.items()}

    def difference(self, pattern: Any, value: Any) -> str | None:
        """Where a value is not what the pattern says. Nothing is bound by a pattern that does not fit."""
        before = dict(self.values)
        try:
            self._compare("", pattern, value)
        except AssertionError as error:
            self.values = before
            return str(error)
        return None

    def _value_of(self, placeholder: str) -> Any:
        if placeholder not in self.values:
            assert placeholder.startswith("$uuid:"), f"{placeholder} is sent, but nothing has set it"
            self.values[placeholder] = f"00000000-0000-4000-8000-{len(self.values) + 1:012x}"
        return self.values[placeholder]

    def _compare(self, at: str, pattern: Any, value: Any) -> None:
        if isinstance(pattern, str) and pattern.startswith("$"):
            return self._placeholder(at, pattern, value)
        if isinstance(pattern, list) and isinstance(value, list) and len(pattern) == len(value):
            for index, part in enumerate(pattern):
                self._compare(f"{at}[{index}]", part, value[index])
            return
        if isinstance(pattern, dict) and "$text" in pattern and isinstance(value, str):
            for part in pattern["$text"]:
                assert part in value, f"{at}: {part!r} is not in {value!r}"
            return
        if isinstance(pattern, dict) and isinstance(value, dict):
            assert pattern.keys() == value.keys(), f"{at}: {sorted(pattern)} were expected, {sorted(value)} came"
            for name, part in pattern.items():
                self._compare(f"{at}.{name}", part, value[name])
            return
        # As JSON: for Python, 1, 1.0 and True are equal.
        assert encode(pattern) == encode(value), f"{at}: {pattern!r} was expected, {value!r} came"

    def _placeholder(self, at: str, text: str, value: Any) -> None:
        if text in self.values:
            assert encode(self.values[text]) == encode(value), f"{at}: {text} is {self.values[text]!r}, {value!r} came"
            return
        kind, _, name = text.partition(":")
        assert self._fits(kind, value), f"{at}: {text} was expected, {value!r} came"
        if name:
            self.values[text] = value

    def _fits(self, kind: str, value: Any) -> bool:
        if kind == "$any":
            return True
        if kind == "$uuid":
            return isinstance(value, str) and _UUID.fullmatch(value) is not None
        if kind == "$number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind == "$text":
            return isinstance(value, str)
        assert kind == "$durable", f"{kind} is no placeholder"
        return bool(value == self._durable)
