"""Results of hop functions: the status, and the result as JSON.

A function returns a dict, JSON text, or `(status, result)`. `read_result` makes a `HopResult` of it:

    read_result({"answer": 4})             HopResult("OK", '{"answer": 4}', {"answer": 4})
    read_result(("UNCERTAIN", "maybe"))    HopResult("UNCERTAIN", '"maybe"', "maybe")
    read_result(object())                  raises BadResult
"""

from __future__ import annotations

import inspect
import json
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec


class HopStatus(StrEnum):
    """How an operator or a whole function ended. A member is its text: `HopStatus.OK == "OK"`, in JSON too.

    LACK_OF_INFO: the model says that the context does not hold what the task needs. UNCERTAIN: there is a
    result, and no verifier confirmed it.
    """

    OK = "OK"
    FAIL = "FAIL"
    UNCERTAIN = "UNCERTAIN"
    LACK_OF_INFO = "LACK_OF_INFO"


OK, FAIL = HopStatus.OK.value, HopStatus.FAIL.value
UNCERTAIN, LACK_OF_INFO = HopStatus.UNCERTAIN.value, HopStatus.LACK_OF_INFO.value
STATUSES = frozenset(status.value for status in HopStatus)

MAX_DEPTH = 100
MAX_BYTES = 8_000_000
"""Size of a result in UTF-8."""

_JSON_BEGINNINGS = ("{", "[", '"')
_SHOWN_CHARACTERS = 80
# The same text as json.dumps gives, without building an encoder for every result.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def known_status(value: Any) -> str | None:
    """The status that a value means: its text, or a member of any enum whose value or name is a status."""
    for candidate in (getattr(value, "value", value), getattr(value, "name", value)):
        if isinstance(candidate, str) and candidate in STATUSES:
            return str(candidate)
    return None


class HopResult(NamedTuple):
    """`text` is the result as it is written, `value` what it means."""

    status: str
    text: str
    value: Any

    @property
    def file_text(self) -> str:
        """The result as result files hold it."""
        return file_text(self.status, self.text)


class BadResult(Exception):
    """The result cannot be written as JSON; the message says why and what to return instead."""


class _NotJson(BadResult):
    pass


def file_text(status: str, text: str) -> str:
    """JSON text as result files hold it: the result alone if the status is OK, else `[status, result]`."""
    return text if status == OK else f"[{_encode(status)}, {text}]"


def read_result(value: Any) -> HopResult:
    """What a function returned. Text that is JSON stays as it is, byte for byte; the rest goes through json.dumps.

    Text beside a status may be plain, as operators return it, and becomes a JSON string. Beside OK it may not
    begin as JSON does: then it is JSON that was cut off.
    """
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    status = known_status(value[0]) if is_pair else None
    if status is not None:
        value = value[1]
    elif value is None:
        raise BadResult("it returned nothing; return a dict, JSON text or (status, result)")
    if not isinstance(value, str):
        return _checked(status or OK, _dumped(value))
    try:
        return _checked(status or OK, value)
    except _NotJson:
        if status is None or (status == OK and value.lstrip().startswith(_JSON_BEGINNINGS)):
            raise
        return _checked(status, _dumped(value))


def _dumped(value: Any) -> str:
    try:
        return _encode(value)
    except RecursionError:
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH}") from None
    except (TypeError, ValueError, OverflowError) as error:
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise BadResult("it returned a coroutine; declare the function with `async def`") from None
        raise BadResult(f"the result is no JSON: {error}") from None


def _checked(status: str, text: str) -> HopResult:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise BadResult(f"the result holds half a character, which cannot be written: {error}") from None
    if len(raw) > MAX_BYTES:
        raise BadResult(f"the result has {len(raw):,} bytes; at most {MAX_BYTES:,} are kept")
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
        raise _NotJson(f"the result is text that is not JSON ({error}): {shown!r}; return a dict") from None
    if _is_deeper(value, MAX_DEPTH):
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH}")
    return HopResult(status, text, value)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether dicts and lists are nested more than `levels` deep."""
    if not isinstance(value, (dict, list)):
        return False
    if levels == 0:
        return True
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (dict, list)) and _is_deeper(item, levels - 1):
            return True
    return False
