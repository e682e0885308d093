"""The forms in which a line of a HOP batch file may stand: an input, a result of one, or neither.

A View record is `{"input": {...}, "result" | "error": ...}`; a flat record is the input itself, with `hop_*`
and `profile` in it. A bare pair `[status, result]` is a result of which nobody knows the input. Lines of
`_type: meta` and lines of an observer's log are no inputs at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Fields = dict[str, Any]

EXPECTED = "expected_"
MOST_WRAPPERS = 100
"""Old tools wrapped their own output again and again; more than this is no accident."""

_ABOUT = frozenset({"id", "tag", "description", "difficulty"})
_OBSERVED = frozenset({"run_start", "step", "run_end"})
_STATUSES = frozenset({"OK", "FAIL", "UNCERTAIN", "LACK_OF_INFO", "ERROR"})


def normalize_input(rec: Fields) -> Fields:
    """`rec["input"]` if that is a dict and `result` or `error` stands beside it; else `rec` itself."""
    if "input" in rec and isinstance(rec["input"], dict) and ("result" in rec or "error" in rec):
        inner: Fields = rec["input"]
        return inner
    return rec


def view_record(inner: Fields, *, result: str | None = None, error: str | None = None) -> Fields:
    """A record in the View's form; where there is an error there is no result."""
    return {"input": inner, "error": error} if error is not None else {"input": inner, "result": result}


def unwrapped(
    record: Fields, inputs: Collection[str] = (), once: Callable[[Fields], Fields] = normalize_input
) -> Fields:
    """The record within all its wrappers. ValueError if there is no end of them.

    What a wrapper says of the row (id, tag, `expected_*` …) is kept and wins, unless it is one of `inputs`.
    A null says nothing, except of what is expected.
    """
    for _ in range(MOST_WRAPPERS + 1):
        inner = once(record)
        if inner is record:
            return record
        beside = {
            key: value
            for key, value in record.items()
            if is_about(key)
            and not (key in inner and (key in inputs or (value is None and not key.startswith(EXPECTED))))
        }
        record = {**beside, **inner, **beside} if beside else inner
    raise ValueError(f"more than {MOST_WRAPPERS} wrappers stand around one input")


def is_meta(record: Mapping[str, Any]) -> bool:
    """Whether it tells of a profile."""
    return record.get("_type") == "meta"


def is_observed(record: Mapping[str, Any]) -> bool:
    """Whether it is a line of an observer's log, by its shape: logs stand in the same folder as data."""
    kind = record.get("type")
    return isinstance(kind, str) and kind in _OBSERVED and "run_id" in record


def said_status(said: Any) -> str:
    """The status that a file's word means: `ok` and `HopStatus.OK` are `OK`. Empty for what is no text."""
    return said.strip().upper().removeprefix("HOPSTATUS.") if isinstance(said, str) else ""


def is_pair(value: Any) -> bool:
    """Whether it is a status and a result. Of an unknown status the second must look like an object.

    Beside a status in another spelling, such as `ok`, a number or a list is not enough.
    """
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return False
    second = value[1]
    if said_status(value[0]) in _STATUSES:
        return value[0] in _STATUSES or second is None or isinstance(second, (str, dict))
    return value[0].isupper() and (isinstance(second, dict) or str(second).lstrip()[:1] == "{")


def is_about(key: str) -> bool:
    """Whether a key tells about a row and is no input of the function."""
    return key in _ABOUT or key.startswith(EXPECTED)


def is_result(key: str) -> bool:
    """Whether a key was added by an earlier batch."""
    return key == "profile" or key.startswith("hop_")


class _Keys(NamedTuple):
    given: tuple[str, ...]
    expected: tuple[str, ...]
    kept: tuple[str, ...]


@lru_cache(1024)
def _sorted(keys: tuple[str, ...], inputs: tuple[str, ...]) -> _Keys:
    """The keys of a record by what becomes of them. Rows of a file have mostly the same keys."""
    apart = [key for key in keys if is_about(key) or is_result(key) or key == "expected"]
    given = [key for key in inputs if key in keys] if inputs else [key for key in keys if key not in apart]
    expected = [key for key in keys if key.startswith(EXPECTED) and key != EXPECTED and key not in inputs]
    kept = [key for key in keys if key in inputs or not is_result(key)]
    return _Keys(tuple(given), tuple(expected), tuple(kept))


class Parts(NamedTuple):
    """A record taken apart: see the three functions below."""

    fields: Fields
    expected: Fields
    kept: Fields


def parts(record: Fields, inputs: tuple[str, ...] = ()) -> Parts:
    """All three at once: a batch reads every row several times."""
    given, expected, kept = _sorted(tuple(record), inputs)
    return Parts(
        {key: record[key] for key in given},
        {key[len(EXPECTED) :]: record[key] for key in expected},
        record if len(kept) == len(record) else {key: record[key] for key in kept},
    )


def without_results(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """The record as it was before an earlier batch; what the contract calls an input stays."""
    return parts(record, tuple(inputs)).kept


def function_fields(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """What the function gets: the contract's inputs; without a contract all that is no word about the row.

    A bare `expected` is an answer, as in other formats: without a contract that names it, it is kept back.
    """
    return parts(record, tuple(inputs)).fields


def expectations(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """`{score: 4}` for `expected_score: 4`."""
    return parts(record, tuple(inputs)).expected
