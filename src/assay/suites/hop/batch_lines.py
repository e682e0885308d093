"""The forms of a line in a HOP batch file. A line is an input, an input with its result, or neither.

A record is here what HOP's documents call so, the object of a line, and not an output of a case:

- A View record is `{"input": {...}, "result": ...}` or `{"input": {...}, "error": ...}`.
- A flat record is the input itself, with `hop_result`, `hop_stats` and `profile` added to it.
- A bare pair `[status, result]` is a result without its input.
- Lines with `_type: meta` and lines of an observer's log are not inputs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

Fields = dict[str, Any]

EXPECTED = "expected_"
MAX_WRAPPERS = 100
"""Old tools wrap their own output again each time it is their input. A file with more wrappers is broken."""

RESULT_KEYS = ("hop_result", "hop_stats", "profile")
"""Keys that a batch adds to a flat record, in this order."""
VIEW_SUFFIX = "_view"
"""Ends the stem of a result file with records in the View's form."""
PARTIAL_SUFFIX = ".partial"
"""In the name of the file that has the rows of a batch while it runs."""
_TIME = r"_\d{8}_\d{6}"
_MARKS = rf"{VIEW_SUFFIX}|{re.escape(PARTIAL_SUFFIX)}"
# The stem of the data, and what batches have added to it. A first time without a mark may be the data's own.
_RESULT_STEM = re.compile(rf"(.+?(?:{_TIME}(?!{_MARKS}))?)(?:{_TIME}(?:{_MARKS})*)*", re.DOTALL)
# File names are limited to 255 bytes. The time and the suffix follow the stem.
_MAX_STEM_BYTES = 200
_ROW_KEYS = frozenset({"id", "tag", "description", "difficulty"})
_OBSERVER_TYPES = frozenset({"run_start", "step", "run_end"})
_STATUSES = frozenset({"OK", "FAIL", "UNCERTAIN", "LACK_OF_INFO", "ERROR"})


def normalize_input(rec: Fields) -> Fields:
    """Return `rec["input"]` if it is a dict and `rec` also has `result` or `error`; else `rec` itself."""
    if "input" in rec and isinstance(rec["input"], dict) and ("result" in rec or "error" in rec):
        inner: Fields = rec["input"]
        return inner
    return rec


def view_record(inner: Fields, *, result: str | None = None, error: str | None = None) -> Fields:
    """Return a record in the View's form, with either a result or an error."""
    return {"input": inner, "error": error} if error is not None else {"input": inner, "result": result}


def unwrap(record: Fields, inputs: Collection[str] = (), once: Callable[[Fields], Fields] = normalize_input) -> Fields:
    """Return the record without its wrappers. Raises ValueError if there are too many.

    Keys of a wrapper that describe the row (id, tag, `expected_*` …) are copied into the record and override its own,
    except keys in `inputs`. A null value overrides nothing, except for `expected_*`.
    """
    for _ in range(MAX_WRAPPERS + 1):
        inner = once(record)
        if inner is record:
            return record
        row_keys: Fields = {}
        for key, value in record.items():
            is_null = value is None and not key.startswith(EXPECTED)
            if is_row_key(key) and not (key in inner and (key in inputs or is_null)):
                row_keys[key] = value
        # Named twice: the first sets the order of the keys, the second lets their values win.
        record = {**row_keys, **inner, **row_keys} if row_keys else inner
    raise ValueError(f"more than {MAX_WRAPPERS} wrappers stand around one input")


def result_file_name(data: Path, started: float, *, view: bool = False) -> str:
    """Return `<data stem>_<YYYYmmdd_HHMMSS>.jsonl`, with the time of the batch's first start.

    In the View's form the stem ends with `_view`, so that both forms of a batch fit into one folder. The names are
    unique, because no two runs of a folder start in the same second. They do not grow if the output of a batch is the
    data of the next one: of the times at the end of a stem only the first stays, which may be the data's own. A long
    stem is cut.
    """
    stem = data.stem
    if known := _RESULT_STEM.fullmatch(stem):
        stem = known[1]
    raw = os.fsencode(stem)
    if len(raw) > _MAX_STEM_BYTES:
        stem = raw[:_MAX_STEM_BYTES].decode(errors="ignore")
    when = time.strftime("%Y%m%d_%H%M%S", time.localtime(started))
    return f"{stem}_{when}{VIEW_SUFFIX if view else ''}.jsonl"


def is_meta(record: Mapping[str, Any]) -> bool:
    """Return whether a line describes a profile."""
    return record.get("_type") == "meta"


def is_observer_line(record: Mapping[str, Any]) -> bool:
    """Return whether a record looks like a line of an observer's log. Logs are in the same folder as data files."""
    kind = record.get("type")
    return isinstance(kind, str) and kind in _OBSERVER_TYPES and "run_id" in record


def file_status(text: Any) -> str:
    """Return the status in a file in upper case: `ok` and `HopStatus.OK` become `OK`. Empty if it is not a text."""
    return text.strip().upper().removeprefix("HOPSTATUS.") if isinstance(text, str) else ""


def is_pair(value: Any) -> bool:
    """Return whether a value is a pair `[status, result]`, and not just a list of two items.

    A known status is enough. With a status in another spelling, such as `ok`, the result must be a text, object or
    null. With an unknown status it must look like an object.
    """
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return False
    result = value[1]
    if file_status(value[0]) in _STATUSES:
        return value[0] in _STATUSES or result is None or isinstance(result, (str, dict))
    return value[0].isupper() and (isinstance(result, dict) or str(result).lstrip()[:1] == "{")


def is_row_key(key: str) -> bool:
    """Return whether a key describes the row, and is not an input of the function."""
    return key in _ROW_KEYS or key.startswith(EXPECTED)


def is_result_key(key: str) -> bool:
    """Return whether a key was added by an earlier batch. Other keys with `hop_`, such as `hop_count`, are inputs."""
    return key in RESULT_KEYS


class SplitRecord(Struct):
    """A record taken apart; see `function_fields`, `expectations` and `without_results`."""

    fields: Fields
    expected: Fields
    kept: Fields


def split_record(record: Fields, inputs: tuple[str, ...] = ()) -> SplitRecord:
    """Return fields, expected values and kept keys at once. A batch reads every row several times: this saves time."""
    fields, expected, kept = _sort_keys(tuple(record), inputs)
    return SplitRecord(
        {key: record[key] for key in fields},
        {name: record[key] for name, key in expected},
        record if len(kept) == len(record) else {key: record[key] for key in kept},
    )


def without_results(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """Return the record without the keys that earlier batches added. Inputs of the contract stay."""
    return split_record(record, tuple(inputs)).kept


def function_fields(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """Return the fields for the function: the contract's inputs, or without a contract all keys except row keys.

    A key `expected` is a gold answer, as in other formats: the function gets it only if the contract names it.
    """
    return split_record(record, tuple(inputs)).fields


def expectations(record: Fields, inputs: Collection[str] = ()) -> Fields:
    """Return the expected values: `{"score": 4}` for `expected_score: 4`."""
    return split_record(record, tuple(inputs)).expected


class _SortedKeys(NamedTuple):
    fields: tuple[str, ...]
    expected: tuple[tuple[str, str], ...]
    """Pairs such as `("score", "expected_score")`."""
    kept: tuple[str, ...]


@lru_cache(1024)
def _sort_keys(keys: tuple[str, ...], inputs: tuple[str, ...]) -> _SortedKeys:
    """Return the keys of each part of a record. Cached, because the rows of a file usually have the same keys."""
    hidden = [key for key in keys if is_row_key(key) or is_result_key(key) or key == "expected"]
    if inputs:
        fields = [key for key in inputs if key in keys]
    else:
        fields = [key for key in keys if key not in hidden]
    expected = [
        (key.removeprefix(EXPECTED), key)
        for key in keys
        if key.startswith(EXPECTED) and key != EXPECTED and key not in inputs
    ]
    kept = [key for key in keys if key in inputs or not is_result_key(key)]
    return _SortedKeys(tuple(fields), tuple(expected), tuple(kept))
