"""Finds the JSON in a model's reply: models wrap it in code fences and explanations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)
_OPENING_BRACKET = re.compile(r"[{\[]")
_find_end = json.JSONDecoder().raw_decode
# A reply of many brackets would be read again from each of them.
_MOST_BEGINNINGS = 100


class NoJsonError(ValueError):
    """The reply holds no JSON."""


def find_json(reply: str) -> Any:
    """Return the JSON of a reply: all of it, what a code fence holds, or the first object or list in it."""
    for piece in _candidates(reply):
        try:
            return msgspec.json.decode(piece.strip())
        except (ValueError, RecursionError):  # text that is no JSON, or nested a thousand deep
            continue
    raise NoJsonError


def _candidates(reply: str) -> Iterator[str]:
    """Yield the parts of a reply that may be JSON, the likeliest first."""
    yield reply
    for fence in _FENCE.finditer(reply):
        yield fence[1]
    for bracket in islice(_OPENING_BRACKET.finditer(reply), _MOST_BEGINNINGS):
        try:
            end = _find_end(reply, bracket.start())[1]
        except (ValueError, RecursionError):
            continue
        # Decoded again by the caller: Python's decoder takes NaN, a journal does not.
        yield reply[bracket.start() : end]
