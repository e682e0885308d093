"""The lines of a results file in blocks, sorted into results, observations, meta lines and bad lines.

Most lines have one of two clean shapes, and of these only what is counted is decoded. Every other line goes
through `read_audit`, which holds the rules.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from assay.core.hop_records import is_observer_line
from assay.core.jsonl import body
from assay.store.hop.audit import NO_MESSAGE, Audit, read_audit, read_json

_READ, _BLOCK = 1 << 16, 1 << 26  # bytes decoded at once, and given to the tables at once
_LONGEST_ERROR = 1000
_encode = msgspec.json.Encoder().encode


class Rows(NamedTuple):
    """Results column by column: where the line starts, and its fields as JSON text."""

    start: array[int]
    id: list[Any]
    tag: list[Any]
    profile: list[str | None]
    text: list[str | None]


class Odd(NamedTuple):
    """What there is to say of a result beside its fields: an error, text that is no JSON, an outcome."""

    start: int
    profile: str | None
    failed: bool
    parse_error: bool
    outcome: str | None
    error: str | None


class Observation(NamedTuple):
    """One record of the observer. A duration that is missing, negative or no number is None."""

    kind: str
    run_id: str
    op: str | None
    ok: bool
    duration: float | None
    retries: float | None


class Block:
    """What some lines of a file held; ids and tags may be missing unless it is `named`."""

    def __init__(self, *, named: bool = True) -> None:
        self.named = named
        self.rows = Rows(array("q"), [], [], [], [])
        self.odd: list[Odd] = []
        self.observations: list[Observation] = []
        self.metas: list[dict[str, Any]] = []
        self.bad = 0
        self.size = 0

    def add(self, start: int, audit: Audit) -> None:
        """One result."""
        row = (start, audit.row.get("id"), audit.row.get("tag"), audit.profile)
        text = _encode(audit.fields).decode() if audit.fields else None
        columns: tuple[MutableSequence[Any], ...] = self.rows
        for column, value in zip(columns, (*row, text), strict=True):
            column.append(value)
        if audit.failed or audit.parse_error or audit.outcome is not None:
            error = audit.error[:_LONGEST_ERROR] if audit.error is not None else None
            self.odd.append(Odd(start, audit.profile, audit.failed, audit.parse_error, audit.outcome, error))

    def add_error(self, start: int, profile: str | None, error: str) -> None:
        """What an error says. The row, which has no fields, is added by who read it."""
        said = error[:_LONGEST_ERROR]
        self.odd.append(Odd(start, profile, failed=True, parse_error=False, outcome=None, error=said))


class _Stats(msgspec.Struct, gc=False):
    status: Literal["OK", "ERROR"]
    error: str | None = None


class _Nameless(msgspec.Struct, gc=False, kw_only=True):
    """What decides about a flat line, in the order of most files; what may not be there is `UnsetType`."""

    id = None
    tag = None
    hop_result: str | None = None
    hop_stats: _Stats
    profile: str | None = None
    kind: UnsetType = msgspec.field(default=UNSET, name="_type")
    run_id: UnsetType = UNSET


class _Flat(_Nameless, gc=False, kw_only=True):
    id: Any = None
    tag: Any = None


class _Input(msgspec.Struct, gc=False):
    id: Any = None
    tag: Any = None
    input: UnsetType = UNSET


class _Viewed(msgspec.Struct, gc=False, kw_only=True):
    """What decides about a line in the view's wrapper. An id or a tag beside `input` needs the rules."""

    input: _Input
    result: str | None = None
    error: str | None = None
    profile: str | None = None
    id: UnsetType = UNSET
    tag: UnsetType = UNSET
    hop_result: UnsetType = UNSET
    hop_stats: UnsetType = UNSET
    kind: UnsetType = msgspec.field(default=UNSET, name="_type")
    run_id: UnsetType = UNSET


class _Fields(msgspec.Struct, gc=False):
    """A result that lies open: an object without a `result` that might be one more wrapper."""

    result: UnsetType = UNSET


_decode_flat: Callable[[bytes], _Nameless] = msgspec.json.Decoder(_Flat).decode
_decode_nameless = msgspec.json.Decoder(_Nameless).decode
_decode_viewed = msgspec.json.Decoder(_Viewed).decode
_check = msgspec.json.Decoder(_Fields).decode
_NOT_CLEAN = (msgspec.DecodeError, UnicodeError, RecursionError)
_Raw = tuple[int, bytes]


def blocks(path: Path, key: str | None = None, *, named: bool = True) -> Iterator[Block]:
    """The file in blocks of some megabytes; a line that cannot be read costs that line only."""
    offset, block, shapes = 0, Block(named=named), [_flat, _viewed]
    with path.open("rb", buffering=_READ) as file:
        while raws := file.readlines(_READ):
            starts = list(accumulate(map(len, raws), initial=offset))
            offset = starts.pop()
            others = shapes[0](block, zip(starts, raws, strict=True))
            rest = shapes[1](block, others)
            if len(others) - len(rest) > len(raws) // 2:
                shapes.reverse()  # Most files have one shape: it is tried first from now on.
            for start, raw in rest:
                _sort_odd(block, start, raw, key)
            block.size += offset - starts[0]
            if block.size >= _BLOCK:
                yield block
                block = Block(named=named)
    yield block


def line_at(path: Path, start: int) -> dict[str, Any] | list[Any]:
    """The object or pair in a line that was read before. ValueError if it stands there no longer."""
    with path.open("rb") as file:
        file.seek(start)
        value = read_json(_body(file.readline(), start))
    if not isinstance(value, (dict, list)):
        raise ValueError("no object")  # noqa: TRY004
    return value


def _body(raw: bytes, start: int) -> bytes:
    return body(raw, 1 if start == 0 else 2)


def _flat(block: Block, lines: Iterable[_Raw]) -> list[_Raw]:
    """Take the results with a clean `hop_result`; all other lines are given back."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    decode = _decode_flat if block.named else _decode_nameless
    for start, raw in lines:
        try:
            line = decode(raw)
            text, stats = line.hop_result, line.hop_stats
            if stats.status == "OK":
                _check(text or "")
            else:
                text = None
                block.add_error(start, line.profile, stats.error or NO_MESSAGE)
        except _NOT_CLEAN:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(line.id)
        tags.append(line.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others


def _viewed(block: Block, lines: Iterable[_Raw]) -> list[_Raw]:
    """Take the results in the view's wrapper, where an error wins; all other lines are given back."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    for start, raw in lines:
        try:
            line = _decode_viewed(raw)
            text, named_by = line.result, line.input
            if line.error:
                text = None
                block.add_error(start, line.profile, line.error)
            else:
                _check(text or "")
        except _NOT_CLEAN:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(named_by.id)
        tags.append(named_by.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others


def _sort_odd(block: Block, start: int, raw: bytes, key: str | None) -> None:
    """A line by all the rules."""
    text = _body(raw, start)
    if not text:
        return
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and (audit := read_audit(value, key)):
        block.add(start, audit)
    elif not isinstance(value, dict):
        block.bad += 1
    elif value.get("_type") == "meta":
        block.metas.append(value)
    elif is_observer_line(value):
        block.observations.append(_observation(value))
    elif audit := read_audit(value, key):
        block.add(start, audit)


def named(value: Any) -> str | None:
    """An id or a tag as text."""
    return value if value is None or isinstance(value, str) else _encode(value).decode()


def _observation(value: dict[str, Any]) -> Observation:
    return Observation(
        kind=value["type"],
        run_id=str(value["run_id"]),
        op=named(value.get("op")),
        ok=value.get("status") == "OK",
        duration=_number(value.get("duration")),
        retries=_number(value.get("retry_count")),
    )


def _number(value: Any) -> float | None:
    """A number of at least 0 as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if value >= 0 else None
    except OverflowError:
        return None
