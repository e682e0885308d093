"""Where a step's values come from: `text`, `cleaned.items`, `results[0].score`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from assay.solvers.steps.failing import StepFailed

_PIECE = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")
_MOST_NAMED = 8


class Source:
    """A path into what a case has so far. The first name is an input, an output key or a step's id."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root, *self.path = _pieces(text)

    def find(self, values: Mapping[str, Any]) -> Any:
        """The value; a path that leads nowhere fails the step and says how far it led."""
        if self.root not in values:
            raise StepFailed(f"there is no {self.root!r}: the test has no input of that name")
        value = values[self.root]
        for at, piece in enumerate(self.path):
            value = _inside(value, piece, lambda reached=at: self._shown(reached))
        return value

    def _shown(self, reached: int) -> str:
        """The path up to a place, as people write it."""
        rest = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path[:reached])
        return f"{self.root}{rest}"


def _pieces(text: str) -> list[Any]:
    found: list[Any] = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None or (at == 0 and (match[1] is None or match[0].startswith("."))):
            raise ValueError(f"{text!r} is no path; write name, name.key or name[0].key")
        found.append(int(match[2]) if match[1] is None else match[1])
        at = match.end()
    if not found:
        raise ValueError("an empty source")
    return found


def _inside(value: Any, piece: str | int, reached: Any) -> Any:
    if isinstance(value, list):
        try:
            return value[int(piece)]
        except (ValueError, IndexError):
            raise StepFailed(f"{reached()} is a list of {len(value)}; it has no {piece!r}") from None
    if isinstance(value, dict):
        if piece in value:
            return value[piece]
        known = ", ".join(map(str, list(value)[:_MOST_NAMED])) or "nothing"
        raise StepFailed(f"{reached()} has no {piece!r}; it has: {known}")
    hint = "; `output_parser: json` makes an object of a reply" if isinstance(value, str) else ""
    raise StepFailed(f"{reached()} is {_kind(value)}, so it has no {piece!r}{hint}")


def _kind(value: Any) -> str:
    """What a value is, in the words of JSON."""
    if value is None:
        return "null"
    return "a text" if isinstance(value, str) else "true or false" if isinstance(value, bool) else "a number"
