"""The forms that a line of a HOP batch file can have: an input, the result of one, or neither.

- A View record is `{"input": {...}, "result": ...}` or `{"input": {...}, "error": ...}`.
- A flat record is the input itself, with `hop_*` and `profile` added to it.
- A bare pair `[status, result]` is a result without its input.
- Lines of `_type: meta` and lines of an observer's log are no inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Fields = dict[str, Any]

EXPECTED = "expected_"
MAX_WRAPPERS = 100
"""Old tools wrapped their own output again and again. More wrappers than this are no accident."""

_ROW_KEYS = frozenset({"id", "tag", "description", "difficulty"})
_OBSERVER_TYPES = frozenset({"run_start", "step", "run_end"})
_STATUSES = frozenset({"OK", "FAIL", "UNCERTAIN", "LACK_OF_INFO", "ERROR"})


def normalize_input(rec: Fields) -> Fields:
    """`rec["input"]` if that is a dict and `result` or `error` stands beside it; else `rec` itself."""
    if "input" in rec and isinstance(rec["input"], dict) and ("result" in rec or "error" in rec):
        inner: Fields = rec["input"]
        return inner
    return rec


def view_record(inner: Fields, *, result: str | None = None, error: str | None = None) -> Fields:
    """A record in the View's form. With an error there is no result."""
    return {"input": inner, "error": error} if error is not None else {"input": inner, "result": result}


def unwrap(
    record: Fields, inputs: Collection[str] = (), once: Callable[[Fields], Fields] = normalize_input
) -> Fields:
    """The record within all its wrappers. Raises ValueError if there are too many.

    What a wrapper says of the row (id, tag, `expected_*` …) is kept and wins, unless it is one of `inputs`.
    A null says nothing, except of what is expected.
    """
    for _ in range(MAX_WRAPPERS + 1):
        inner = once(record)
        if inner is record:
            return record
        beside: Fields = {}
        for key, value in record.items():
            says_nothing = value is None and not key.startswith(EXPECTED)
            if is_row_key(key) and not (key in inner and (key in inputs or says_nothing)):
                beside[key] = value
        record = {**beside, **inner, **beside} if beside else inner
    raise ValueError(f"more than {MAX_WRAPPERS} wrappers stand around one input")


def is_meta(record: Mapping[str, Any]) -> bool:
    """Whether it is the line about a profile."""
    return record.get("_type") == "meta"


def is_observer_line(record: Mapping[str, Any]) -> bool:
    """Whether it has the shape of a line of an observer's log. Logs stand in the same folder as data."""
    kind = record.get("type")
    return isinstance(kind, str) and kind in _OBSERVER_TYPES and "run_id" in record


def file_status(text: Any) -> str:
    """The status that a file's word means: `ok` and `HopStatus.OK` are `OK`. Empty for a value that is no text."""
    return text.strip().upper().removeprefix("HOPSTATUS.") if isinstance(text, str) else ""


def is_pair(value: Any) -> bool:
    """Whether it is `[status, result]`. With an unknown status the result must look like an object.

    With a status in another spelling, such as `ok`, a number or a list is not enough.
    """
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return False
    result = value[1]
    if file_status(value[0]) in _STATUSES:
        return value[0] in _STATUSES or result is None or isinstance(result, (str, dict))
    return value[0].isupper() and (isinstance(result, dict) or str(result).lstrip()[:1] == "{")


def is_row_key(key: str) -> bool:
    """Whether a key tells about the row and is no input of the function."""
    return key in _ROW_KEYS or key.startswith(EXPECTED)


def is_result_key(key: str) -> bool:
    """Whether a key was added by an earlier batch."""
    return key == "profile" or key.startswith("hop_")


class RecordParts(NamedTuple):
    """A record taken apart: see the three functions below."""

    fields: Fields
    expected: Fields
    kept: Fields


def split_record(record: Fields, inputs: tuple[str, ...] = ()) -> RecordParts:
    """All three parts at once: a batch reads every row several times."""
    fields, expected, kept = _sort_keys(tuple(record), inputs)
    return RecordParts(
        {key: record[key] for key in fields},
        {key[len(EXPECTED) :]: record[key] for key in expected},
        record if len(kept) == len(record) else {key: record[key] for key in kept},
    )


def without_results(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """The record as it was before an earlier batch. Inputs of the contract stay."""
    return split_record(record, tuple(inputs)).kept


def function_fields(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """What the function gets: the contract's inputs; without a contract everything that is not about the row.

    A bare `expected` is an answer, as in other formats: the function gets it only if the contract names it.
    """
    return split_record(record, tuple(inputs)).fields


def expectations(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """`{score: 4}` for `expected_score: 4`."""
    return split_record(record, tuple(inputs)).expected


class _SortedKeys(NamedTuple):
    fields: tuple[str, ...]
    expected: tuple[str, ...]
    kept: tuple[str, ...]


@lru_cache(1024)
def _sort_keys(keys: tuple[str, ...], inputs: tuple[str, ...]) -> _SortedKeys:
    """The keys of a record by what becomes of them. Cached, since the rows of a file mostly have the same keys."""
    hidden = [key for key in keys if is_row_key(key) or is_result_key(key) or key == "expected"]
    if inputs:
        fields = [key for key in inputs if key in keys]
    else:
        fields = [key for key in keys if key not in hidden]
    expected = [key for key in keys if key.startswith(EXPECTED) and key != EXPECTED and key not in inputs]
    kept = [key for key in keys if key in inputs or not is_result_key(key)]
    return _SortedKeys(tuple(fields), tuple(expected), tuple(kept))
