"""What a function returned, as JSON: a dict, JSON text, or `(status, result)`."""

from __future__ import annotations

import inspect
import json
from typing import Any, NamedTuple

import msgspec

from assay.core.status import OK, known_status

DEEPEST = 100
LARGEST = 8_000_000
"""Bytes of UTF-8."""
_SHOWN = 80
_BEGINS = ("{", "[", '"')
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""What `json.dumps` does, without making an encoder each time."""


class Returned(NamedTuple):
    """`text` is the result as it is written, `value` what it means."""

    status: str
    text: str
    value: Any

    @property
    def written(self) -> str:
        """As result files hold it: a pair unless the status is OK."""
        return written(self.status, self.text)


class BadResult(Exception):
    """The result cannot be written as JSON; the message says why and what to return instead."""


def written(status: str, text: str) -> str:
    """JSON text as result files hold it: where the status says more than OK, the pair of both."""
    return text if status == OK else f"[{_encode(status)}, {text}]"


def normalised(value: Any) -> Returned:
    """Text that is JSON stays as it is, byte for byte; anything else is written by `json.dumps`.

    Text beside a status may be plain, as operators return it, and becomes a JSON string; beside OK it may not
    begin as JSON does, since then it is JSON that was cut off.
    """
    status = known_status(value[0]) if isinstance(value, (tuple, list)) and len(value) == 2 else None
    if status is not None:
        value = value[1]
    elif value is None:
        raise BadResult("it returned nothing; return a dict, JSON text or (status, result)")
    if not isinstance(value, str):
        return _checked(status or OK, _dumped(value))
    try:
        return _checked(status or OK, value)
    except _NoJson:
        if status is None or (status == OK and value.lstrip().startswith(_BEGINS)):
            raise
        return _checked(status, _dumped(value))


class _NoJson(BadResult):
    pass


def _dumped(value: Any) -> str:
    try:
        return _encode(value)
    except RecursionError:
        raise BadResult(f"the result is nested deeper than {DEEPEST}") from None
    except (TypeError, ValueError, OverflowError) as error:
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise BadResult("it returned a coroutine; declare the function with `async def`") from None
        raise BadResult(f"the result is no JSON: {error}") from None


def _checked(status: str, text: str) -> Returned:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise BadResult(f"the result holds half a character, which cannot be written: {error}") from None
    if len(raw) > LARGEST:
        raise BadResult(f"the result has {len(raw):,} bytes; at most {LARGEST:,} are kept")
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise BadResult(f"the result is nested deeper than {DEEPEST}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise _NoJson(f"the result is text that is not JSON ({error}): {shown!r}; return a dict") from None
    if _deeper(value, DEEPEST):
        raise BadResult(f"the result is nested deeper than {DEEPEST}")
    return Returned(status, text, value)


def _deeper(value: Any, left: int) -> bool:
    """Whether containers stand more than `left` deep in each other."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_deeper(each, left - 1) for each in inner if isinstance(each, (dict, list)))
