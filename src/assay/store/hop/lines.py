"""The lines of a results file, read in blocks and sorted into results, observations, meta lines and bad lines.

Most lines have one of two clean shapes, and of these only what is counted is decoded. Every other line goes through
`read_audit`, which holds the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.core.jsonl import body
from assay.store.hop.audit import OBSERVED, Audit, is_observed, read_audit, read_json

_BLOCK = 1 << 22
_LONGEST_ERROR = 1000
_encode = msgspec.json.Encoder().encode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class Result(NamedTuple):
    """One result as the table has it: where its line stands, and its fields as JSON text."""

    start: int
    size: int
    id: str | None
    tag: str | None
    profile: str | None
    failed: bool
    parse_error: bool
    outcome: str | None
    error: str | None
    text: str | None


class Observation(NamedTuple):
    """One record of the observer. A duration that is missing, negative or no number is None."""

    kind: str
    run_id: str
    op: str | None
    ok: bool
    duration: float | None
    retries: float | None


class Block(msgspec.Struct):
    """What some lines of a file held."""

    results: list[Result] = []
    observations: list[Observation] = []
    metas: list[dict[str, Any]] = []
    bad: int = 0


class _Stats(msgspec.Struct, gc=False):
    status: Any = None
    error: Any = None


class _Input(msgspec.Struct, gc=False):
    id: Any = None
    tag: Any = None
    input: Any = UNSET


class _Line(msgspec.Struct, gc=False):
    """What decides about a line of a clean shape; everything else in it is skipped."""

    hop_result: Any = UNSET
    hop_stats: _Stats | None = None
    profile: str | None = None
    id: Any = None
    tag: Any = None
    input: _Input | None = None
    result: Any = UNSET
    error: Any = UNSET
    kind: Any = msgspec.field(default=UNSET, name="_type")
    type: Any = UNSET
    run_id: Any = UNSET
    op: Any = None
    status: Any = None
    duration: Any = None
    retry_count: Any = None


_decode = msgspec.json.Decoder(_Line).decode


def blocks(path: Path, key: str | None = None) -> Iterator[Block]:
    """The file in blocks of some megabytes; a line that cannot be read costs that line only."""
    offset = number = 0
    with path.open("rb", buffering=1 << 20) as file:
        while raws := file.readlines(_BLOCK):
            block = Block()
            for raw in raws:
                number += 1
                _sort(block, raw, _Place(offset, number, key))
                offset += len(raw)
            yield block


def line_at(path: Path, start: int, size: int) -> dict[str, Any]:
    """The object in a line that was read before. ValueError if it stands there no longer."""
    with path.open("rb") as file:
        file.seek(start)
        value = read_json(body(file.read(size), 1 if start == 0 else 2))
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004
    return value


class _Place(NamedTuple):
    start: int
    number: int
    key: str | None


def _sort(block: Block, raw: bytes, place: _Place) -> None:
    try:
        line = _decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        _sort_odd(block, raw, place)
        return
    text = _clean(line)
    if text is None:
        _sort_other(block, line, raw, place)
        return
    named = line.input or line
    id_, tag = named.id, named.tag
    block.results.append(
        Result(
            place.start,
            len(raw),
            id_ if type(id_) is str else _named(id_),
            tag if type(tag) is str else _named(tag),
            line.profile,
            False,  # noqa: FBT003
            False,  # noqa: FBT003
            None,
            None,
            text,
        )
    )


def _clean(line: _Line) -> str | None:
    """The fields of a result without error that lies open in its wrapper; None for every other line."""
    if line.kind is not UNSET or line.error is not UNSET or line.run_id is not UNSET:
        return None
    if line.input is None:
        stats, text = line.hop_stats, line.hop_result
        if stats is None or stats.status != "OK" or line.result is not UNSET:
            return None
    else:
        text = line.result
        if line.hop_stats is not None or line.hop_result is not UNSET or line.input.input is not UNSET:
            return None
    if type(text) is not str or text[:1] != "{" or '"result"' in text:
        return None
    try:
        _check(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return text


def _sort_other(block: Block, line: _Line, raw: bytes, place: _Place) -> None:
    if line.type is not UNSET and line.run_id is not UNSET and line.kind is UNSET and line.type in OBSERVED:
        block.observations.append(_observation(line))
    else:
        _sort_odd(block, raw, place)


def _sort_odd(block: Block, raw: bytes, place: _Place) -> None:
    """A line by all the rules."""
    text = body(raw, place.number)
    if not text:
        return
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        block.bad += 1
    elif value.get("_type") == "meta":
        block.metas.append(value)
    elif is_observed(value):
        names = ("type", "run_id", "op", "status", "duration", "retry_count")
        block.observations.append(_observation(_Line(**{name: value.get(name) for name in names})))
    elif audit := read_audit(value, place.key):
        block.results.append(_result(audit, place.start, len(raw)))


def _result(audit: Audit, start: int, size: int) -> Result:
    return Result(
        start=start,
        size=size,
        id=_named(audit.row.get("id")),
        tag=_named(audit.row.get("tag")),
        profile=audit.profile,
        failed=audit.failed,
        parse_error=audit.parse_error,
        outcome=audit.outcome,
        error=audit.error[:_LONGEST_ERROR] if audit.error is not None else None,
        text=_encode(audit.fields).decode() if audit.fields else None,
    )


def _named(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if type(value) is int else _encode(value).decode()


def _observation(line: _Line) -> Observation:
    duration, retries = _number(line.duration), _number(line.retry_count)
    status = line.status if isinstance(line.status, str) else ""
    return Observation(line.type, str(line.run_id), _named(line.op), status == "OK", duration, retries)


def _number(value: Any) -> float | None:
    """A number of at least 0 as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if value >= 0 else None
    except OverflowError:
        return None
