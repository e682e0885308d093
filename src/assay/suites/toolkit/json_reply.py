"""Extracts JSON from a model's reply. Models often wrap it in code fences or explanations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

# Only one newline: with several, a fence that is never closed would be searched once for each of them.
_FENCE = re.compile(r"```[\w-]*[^\S\n]*\n(.*?)```", re.DOTALL)
_OPENING_BRACKET = re.compile(r"[{\[]")
_find_end = json.JSONDecoder().raw_decode
# Opening brackets to try. Each attempt may read to the end of the reply, so a reply full of brackets would
# take quadratic time.
_MAX_BRACKETS = 100


class NoJsonError(ValueError):
    """The reply contains no JSON."""


def find_json(reply: str) -> Any:
    """Return the JSON value of a reply: the whole reply, else a code fence, else the first object or list.

    Raises NoJsonError if none of them is valid JSON.
    """
    for candidate in _candidates(reply):
        try:
            return msgspec.json.decode(candidate.strip())
        except (ValueError, RecursionError):  # RecursionError: nested about a thousand levels deep
            continue
    raise NoJsonError


def _candidates(reply: str) -> Iterator[str]:
    """Yield the parts of a reply that may be JSON, the most likely first."""
    yield reply
    for fence in _FENCE.finditer(reply):
        yield fence[1]
    for bracket in islice(_OPENING_BRACKET.finditer(reply), _MAX_BRACKETS):
        try:
            end = _find_end(reply, bracket.start())[1]
        except (ValueError, RecursionError):
            continue
        # Only the end is used. The caller decodes the text again, because Python's decoder accepts NaN,
        # which cannot be written to the journal.
        yield reply[bracket.start() : end]
