"""One row of a batch: what is known of it, what the function gets, what is expected of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.core.hashing import row_key
from assay.core.hop_records import is_meta, is_observer_line, is_result_key, split_record, unwrap
from assay.suites.hop.comparing import truth
from assay.suites.hop.contract import Contract, OutputField, fits

UNTAGGED = "(untagged)"
DIFFICULTIES = ("easy", "medium", "hard")
_encode = msgspec.json.Encoder(order="deterministic").encode


class HopRow(Struct, frozen=True):
    """A row. `fields` go to the function, `expected` to the scorer, `record` to the files that are written.

    `record` has the row's id even where the file had none: a batch over its own output has the same rows.
    """

    index: int
    id: int | str
    tag: str
    difficulty: str | None
    description: str | None
    fields: dict[str, Any]
    expected: dict[str, Any]
    record: dict[str, Any]
    line: int
    key: str
    gold: str
    """What is expected, in sixteen digits."""


class Fault(NamedTuple):
    """Something wrong in a row, at a key of it. Warnings that say the same are told once for all rows."""

    key: str
    message: str
    level: str = "error"


NO_ID = "there is no id; the number of the line stands for it"
NO_TAG = f"there is no tag; the row is counted as {UNTAGGED}"
_KEPT_BACK = "is not given to the function; name it in the contract's inputs if it is one"
_NO_OUTPUT = "the contract has no such output"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_id(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, int) and not isinstance(value, bool))


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_id, "a whole number or a text"),
    "tag": (_is_text, "a text"),
    "difficulty": (lambda value: value in DIFFICULTIES, f"one of {', '.join(DIFFICULTIES)}"),
    "description": (lambda value: isinstance(value, str), "a text"),
}


class RowReader:
    """Makes rows of records, for a function with this contract."""

    def __init__(self, contract: Contract | None = None) -> None:
        self._contract = contract or Contract()
        self._inputs = tuple(self._contract.inputs)

    def record(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """The record within its wrappers; None for a line that holds no row. ValueError without an end."""
        if is_meta(value) or is_observer_line(value):
            return None
        found = unwrap(value, self._inputs)
        return None if found is not value and (is_meta(found) or is_observer_line(found)) else found

    def row(self, record: dict[str, Any], line: int, index: int = 0) -> HopRow:
        """The row of a record; what is told of it in a wrong way is as if it were not told."""
        named = _is_id(record.get("id"))
        id_: int | str = record["id"] if named else line
        fields, expected, kept = split_record(record, self._inputs)
        return HopRow(
            index,
            id_,
            record["tag"] if _is_text(record.get("tag")) else UNTAGGED,
            record["difficulty"] if record.get("difficulty") in DIFFICULTIES else None,
            record["description"] if isinstance(record.get("description"), str) else None,
            fields,
            expected,
            kept if named or "id" in self._inputs else {"id": id_, **_without_id(kept)},
            line,
            row_key(_encode([id_, fields])),
            gold_digest(expected),
        )

    def faults(self, record: dict[str, Any], row: HopRow) -> list[Fault]:
        """What is wrong with a record that was made a row, and what is to be told of it."""
        found: list[Fault] = []
        self._about(record, found)
        self._given(record, found)
        if not row.fields and not self._inputs:
            found.append(Fault("", "there is no input in this row"))
        if outputs := self._contract.outputs:
            for name, value in row.expected.items():
                if told := _never_right(outputs.get(name), value):
                    found.append(Fault(f"expected_{name}", told, "warning"))
        return found

    def _about(self, record: dict[str, Any], found: list[Fault]) -> None:
        """Checks what is told of the row; what the contract calls an input is checked as one instead."""
        for key, (fine, wanted) in _CHECKS.items():
            value = record.get(key)
            if value is not None and key not in self._inputs and not fine(value):
                found.append(Fault(key, f"expected {wanted}, found {_short(value)}"))
        if record.get("id") is None or ("id" in self._inputs and not _is_id(record["id"])):
            found.append(Fault("id", NO_ID, "warning"))
        tag = record.get("tag")
        if tag is None or ("tag" in self._inputs and not _is_text(tag)):
            found.append(Fault("tag", NO_TAG, "warning"))

    def _given(self, record: dict[str, Any], found: list[Fault]) -> None:
        contract = self._contract
        for name, kind in contract.inputs.items():
            value = record.get(name)
            if value is None and name in contract.optional:
                continue
            if name not in record:
                found.append(Fault(name, "the contract wants this input, and it is not there"))
            elif not fits(value, kind):
                found.append(Fault(name, f"the contract wants {kind}, found {_short(value)}"))
        if contract.inputs:
            return
        if "expected" in record:
            found.append(Fault("expected", f"`expected` {_KEPT_BACK}", "warning"))
        if "profile" in record and not any(is_result_key(key) and key != "profile" for key in record):
            found.append(Fault("profile", f"`profile` {_KEPT_BACK}", "warning"))


def _never_right(output: OutputField | None, value: Any) -> str:
    """Why no output can be what is expected; empty if one can. A boolean may be written as a text."""
    if output is None:
        return _NO_OUTPUT
    if value is None:
        return ""
    if not (fits(value, output.type) or (output.type == "bool" and isinstance(value, str))):
        return f"the contract has {output.type} for this output, so nothing will be equal to it"
    if output.compare == "bands" and output.band_of(truth(value) if output.type == "bool" else value) is None:
        return "the value lies in no band of the contract"
    return ""


def _without_id(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "id"}


def gold_digest(expected: dict[str, Any]) -> str:
    """What is expected of a row, in sixteen digits."""
    return row_key(_encode(expected))


def _short(value: Any) -> str:
    text = _encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
