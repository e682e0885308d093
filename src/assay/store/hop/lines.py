"""The lines of a results file in blocks, sorted into results, observations, meta lines and bad lines.

Most lines have one of two clean shapes, and of these only what is counted is decoded. Every other line goes
through `read_audit`, which holds the rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.core.jsonl import body
from assay.core.wrappers import is_observed
from assay.store.hop.audit import Audit, read_audit, read_json

_READ, _BLOCK = 1 << 17, 1 << 25  # bytes decoded at once, and given to the tables at once
_LONGEST_ERROR = 1000
_encode = msgspec.json.Encoder().encode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class Rows(NamedTuple):
    """Results column by column: where the line starts, and its fields as JSON text."""

    start: list[int]
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
    """What some lines of a file held."""

    def __init__(self) -> None:
        self.rows = Rows([], [], [], [], [])
        self.odd: list[Odd] = []
        self.observations: list[Observation] = []
        self.metas: list[dict[str, Any]] = []
        self.bad = 0
        self.size = 0

    def add(self, start: int, audit: Audit) -> None:
        """One result."""
        row = (start, audit.row.get("id"), audit.row.get("tag"), audit.profile)
        text = _encode(audit.fields).decode() if audit.fields else None
        columns: tuple[list[Any], ...] = self.rows
        for column, value in zip(columns, (*row, text), strict=True):
            column.append(value)
        if audit.failed or audit.parse_error or audit.outcome is not None:
            error = audit.error[:_LONGEST_ERROR] if audit.error is not None else None
            self.odd.append(Odd(start, audit.profile, audit.failed, audit.parse_error, audit.outcome, error))


class _Stats(msgspec.Struct, gc=False):
    status: Any = None
    error: Any = None


class _Input(msgspec.Struct, gc=False):
    id: Any = None
    tag: Any = None
    input: Any = UNSET


class _Line(msgspec.Struct, gc=False):
    """What decides about a line of a clean shape, in the order of most files; all else is skipped."""

    id: Any = None
    tag: Any = None
    hop_result: Any = UNSET
    hop_stats: _Stats | None = None
    profile: str | None = None
    input: _Input | None = None
    result: Any = UNSET
    error: Any = UNSET
    kind: Any = msgspec.field(default=UNSET, name="_type")
    run_id: Any = UNSET


_decode = msgspec.json.Decoder(_Line).decode
_Raw = tuple[int, bytes]


def blocks(path: Path, key: str | None = None) -> Iterator[Block]:
    """The file in blocks of some megabytes; a line that cannot be read costs that line only."""
    offset, block = 0, Block()
    with path.open("rb", buffering=_READ) as file:
        while raws := file.readlines(_READ):
            starts = list(accumulate(map(len, raws), initial=offset))
            offset = starts.pop()
            for start, raw in _sort_clean(block, starts, raws):
                _sort_odd(block, start, raw, key)
            block.size += offset - starts[0]
            if block.size >= _BLOCK:
                yield block
                block = Block()
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


def _sort_clean(block: Block, starts: list[int], raws: list[bytes]) -> list[_Raw]:
    """Take the results of a clean shape; the lines of all others are given back."""
    lines = _decoded(raws)
    texts = list(map(_clean_text, lines))
    if not _all_json([text for text in texts if text is not None]):
        texts = [text if text is None or _all_json([text]) else None for text in texts]
    clean = [place for place, text in enumerate(texts) if text is not None]
    found = [lines[place] for place in clean]
    columns = block.rows
    columns.start.extend([starts[place] for place in clean])
    columns.id.extend([line.id if line.input is None else line.input.id for line in found])
    columns.tag.extend([line.tag if line.input is None else line.input.tag for line in found])
    columns.profile.extend([line.profile for line in found])
    columns.text.extend([text for text in texts if text is not None])
    return [
        (starts[place], raws[place])
        for place, text in enumerate(texts)
        if text is None and not _add_error(block, lines[place], starts[place])
    ]


def _add_error(block: Block, line: _Line | None, start: int) -> bool:
    """Whether the line was an error in one of the two wrappers, without doubt; then it is taken."""
    if line is None or line.result is not UNSET or line.kind is not UNSET or line.run_id is not UNSET:
        return False
    stats, named_by = line.hop_stats, line.input or line
    if line.input is None:
        said = stats.error if stats is not None and stats.status == "ERROR" else None
        clean = line.hop_result is None and line.error is UNSET
    else:
        said = line.error
        clean = stats is None and line.hop_result is UNSET and _is_plain_view(line)
    if not clean or type(said) is not str or not said:
        return False
    error = Audit({"id": named_by.id, "tag": named_by.tag}, profile=line.profile, status="ERROR", error=said)
    block.add(start, error)
    return True


def _decoded(raws: list[bytes]) -> list[Any]:
    """A `_Line` for each line, None for one that has other types or is no JSON."""
    try:
        return [_decode(raw) for raw in raws]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [_decoded_one(raw) for raw in raws]


def _decoded_one(raw: bytes) -> _Line | None:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _clean_text(line: _Line | None) -> str | None:
    """The result as text if it lies open in one of the two wrappers, without an error and without doubt."""
    if line is None or line.error is not UNSET or line.kind is not UNSET or line.run_id is not UNSET:
        return None
    stats = line.hop_stats
    if line.input is None:
        text = line.hop_result
        if stats is None or stats.status != "OK" or line.result is not UNSET:
            return None
    else:
        text = line.result
        if stats is not None or line.hop_result is not UNSET or not _is_plain_view(line):
            return None
    return text if type(text) is str and text[:1] == "{" and '"result"' not in text else None


def _is_plain_view(line: _Line) -> bool:
    """Whether all that is known of a wrapped row stands in its `input`, under one wrapper."""
    return line.input is not None and line.input.input is UNSET and line.id is None and line.tag is None


def _all_json(texts: list[str]) -> bool:
    try:
        deque(map(_check, texts), maxlen=0)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


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
    elif is_observed(value):
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
