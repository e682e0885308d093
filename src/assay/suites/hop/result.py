"""Results of HOP functions: a status, and the result as JSON.

A function returns a dict, JSON text, or `(status, result)`. `read_result` turns it into a `HopResult`:

    read_result({"answer": 4})             HopResult("OK", '{"answer": 4}', {"answer": 4})
    read_result(("UNCERTAIN", "maybe"))    HopResult("UNCERTAIN", '"maybe"', "maybe")
    read_result(("SURE", "yes"))           raises BadResult: SURE is no status
    read_result(object())                  raises BadResult
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from assay.files.excerpt import cut_end
from assay.files.read import is_deeper


class HopStatus(StrEnum):
    """How an operator or a function ended. Members are strings: `HopStatus.OK == "OK"`, also in JSON.

    LACK_OF_INFO means that, according to the model, the context lacks information for the task. UNCERTAIN means that
    there is a result, but no verifier confirmed it.
    """

    OK = "OK"
    FAIL = "FAIL"
    UNCERTAIN = "UNCERTAIN"
    LACK_OF_INFO = "LACK_OF_INFO"


OK, FAIL = HopStatus.OK.value, HopStatus.FAIL.value
UNCERTAIN, LACK_OF_INFO = HopStatus.UNCERTAIN.value, HopStatus.LACK_OF_INFO.value
STATUSES = frozenset(status.value for status in HopStatus)

# Levels of dicts and lists in a result.
MAX_DEPTH = 100
# Of a result in UTF-8. It is written to the journal and to a result file.
MAX_BYTES = 8_000_000

_JSON_BEGINNINGS = ("{", "[", '"')
_MAX_QUOTED = 80  # characters of a result in a message
# Writes what json.dumps writes, without building an encoder for every result.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_encode_flat = msgspec.json.Encoder().encode
_TEXTS = frozenset({str})
_SCALARS = frozenset({str, int, bool, type(None)})


def known_status(value: Any) -> str | None:
    """Return the status of a value: a status text, or a member of any enum whose value or name is one; else None."""
    for candidate in (getattr(value, "value", value), getattr(value, "name", value)):
        if isinstance(candidate, str) and candidate in STATUSES:
            return str(candidate)
    return None


class HopResult(NamedTuple):
    """A result. `text` is its JSON, `value` the decoded JSON."""

    status: str
    text: str
    value: Any

    @property
    def file_text(self) -> str:
        """The result as it is written to result files."""
        return file_text(self.status, self.text)


class BadResult(Exception):
    """The result has an unknown status or is no JSON. The message has the reason, and what to return instead."""


class _NotJson(BadResult):
    pass


def file_text(status: str, text: str) -> str:
    """Return the JSON for a result file: the result alone if the status is OK, else `[status, result]`."""
    return text if status == OK else f"[{_encode(status)}, {text}]"


def read_result(value: Any) -> HopResult:
    """Return the HopResult of a function's return value. JSON text stays byte for byte; other values are encoded.

    In `(status, text)` the text may be plain, as operators return it, and becomes a JSON string. But with the status
    OK, a text that begins like JSON and is not valid JSON raises BadResult: it was probably cut off.

    Any other tuple raises BadResult: a mistyped status would count as an answer. A list is a result, unless it is a
    pair with a status.
    """
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    status = known_status(value[0]) if is_pair else None
    if status is not None:
        value = value[1]
    elif isinstance(value, tuple):
        what = f"the status {_quoted(value[0])}" if is_pair else f"a tuple of {len(value)}"
        raise BadResult(
            f"it returned {what}; return (status, result) with the status {', '.join(HopStatus)}. "
            "A result that is a sequence must be a list"
        )
    elif value is None:
        raise BadResult(
            "it returned nothing; return a dict, JSON text or (status, result). Is a `return` or an `await` forgotten?"
        )
    if not isinstance(value, str):
        return _checked(status or OK, _dumped(value))
    try:
        return _checked(status or OK, value)
    except _NotJson:
        if status is None or (status == OK and value.lstrip().startswith(_JSON_BEGINNINGS)):
            raise
        return _checked(status, _dumped(value))


def _quoted(value: Any) -> str:
    """Return the beginning of a text in quotes, or the type of another value, whose repr may be code of the user."""
    if not isinstance(value, str):
        return f"of the type {type(value).__name__}"
    return repr(cut_end(str(value), _MAX_QUOTED))


def _dumped(value: Any) -> str:
    if type(value) is dict and _TEXTS.issuperset(map(type, value)) and _SCALARS.issuperset(map(type, value.values())):
        # What most functions return. msgspec writes such an object as json.dumps does, in half of the time.
        try:
            return msgspec.json.format(_encode_flat(value), indent=0).decode()
        except (UnicodeEncodeError, OverflowError):
            pass  # half a character, or a very large number
    try:
        return _encode(value)
    except RecursionError:
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH}") from None
    except (TypeError, ValueError, OverflowError) as error:
        if name := _close_coroutines(value):
            raise BadResult(
                f"the result is {name}(…), a call without `await`; in an `async def` function, "
                "write `await` before the call"
            ) from None
        raise BadResult(f"the result is no JSON: {error}") from None


def _close_coroutines(value: Any, depth: int = 0) -> str:
    """Return the name of the first function that was called without `await`; empty if there is none.

    Closes all of them: Python would warn that they were never awaited. A value may contain itself.
    """
    if depth > MAX_DEPTH:
        return ""
    if inspect.iscoroutine(value):
        value.close()
        return str(value.__qualname__).rpartition(".")[2]
    if inspect.isawaitable(value):
        return type(value).__name__
    names: list[str] = []
    if isinstance(value, Mapping):
        names = [_close_coroutines(item, depth + 1) for item in value.values()]
    elif isinstance(value, (list, tuple)):
        names = [_close_coroutines(item, depth + 1) for item in value]
    return next(filter(None, names), "")


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
        raise _NotJson(f"the result is text that is not JSON ({error}): {_quoted(text)}; return a dict") from None
    if is_deeper(value, MAX_DEPTH, raw):
        raise BadResult(f"the result is nested deeper than {MAX_DEPTH}")
    return HopResult(status, text, value)
