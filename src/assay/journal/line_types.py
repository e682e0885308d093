"""The lines of the three files of a journal: decoders of whole lines, and structs of the fields that one reader needs.

    for begin, sizes, lines in read_blocks(folder / RECORDS, INDEXED_RECORDS): ...

`core/types.py` has the whole lines: Call, Record, Score and End. The end of a stage is either a line of its own, an
End, or a Commit in the field `end` of the stage's last line. Decoding whole lines takes three times as long as decoding
a few fields, so every pass over all lines of a run has structs of its own:

- `Indexed…`: the index (`index.py`), which needs the ends, and what the calls cost.
- `Table…`: the columns (`columns.py`), which need the numbers of every case and score.
- `CallKey`: replies that are found by their request (`calls.py`).

The rare passes of a repair and of a merge decode whole lines.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.types import (
    Call,
    CallIndex,
    CaseIndex,
    End,
    Offset,
    Record,
    Score,
    ScoreStatus,
    Status,
    TryNumber,
    Usage,
)

CALLS, RECORDS, SCORES = "calls.jsonl", "records.jsonl", "scores.jsonl"

WHOLE_LINES: dict[str, msgspec.json.Decoder[Any]] = {
    CALLS: msgspec.json.Decoder(Call),
    RECORDS: msgspec.json.Decoder(Record | End),
    SCORES: msgspec.json.Decoder(Score | End),
}
"""By name of the file. A forged field that only some reader needs is damage to these too."""

_NOTHING = msgspec.Raw()


class FailureKind(msgspec.Struct, gc=False):
    """The failure of a call or of a case."""

    kind: str


class IndexedCommit(msgspec.Struct, gc=False):
    """A Commit. Its `lines` are not decoded: the index needs their number."""

    try_: TryNumber = msgspec.field(default=1, name="try")
    status: Status = "ok"
    lines: msgspec.Raw = _NOTHING


class IndexedEnd(msgspec.Struct, tag="end", tag_field="type", gc=False):
    """An End."""

    index: CaseIndex
    stage: str
    try_: TryNumber = msgspec.field(name="try")
    status: Status
    lines: msgspec.Raw = _NOTHING


class IndexedRecord(msgspec.Struct, tag="record", tag_field="type", gc=False):
    """A Record."""

    index: CaseIndex
    end: IndexedCommit | None = None


class IndexedScore(msgspec.Struct, tag="score", tag_field="type", gc=False):
    """A Score."""

    index: CaseIndex
    scorer: str
    end: IndexedCommit | None = None


class IndexedResponse(msgspec.Struct, gc=False):
    """A Response. Its texts are not decoded: the index needs to know whether they are blank."""

    text: msgspec.Raw = _NOTHING
    finish: str | None = None
    usage: Usage | None = None
    data: msgspec.Raw = _NOTHING
    cost: float | None = None
    address: str = ""
    adapted: tuple[str, ...] = ()
    price_table: str = ""
    free: bool = False


class IndexedCall(msgspec.Struct, tag="call", tag_field="type", gc=False):
    """A Call."""

    index: CallIndex
    stage: str
    response: IndexedResponse | None = None
    failure: FailureKind | None = None
    attempts: int = 1


INDEXED_CALLS = msgspec.json.Decoder(IndexedCall)
INDEXED_RECORDS = msgspec.json.Decoder(IndexedEnd | IndexedRecord)
INDEXED_SCORES = msgspec.json.Decoder(IndexedEnd | IndexedScore)


class TableCommit(msgspec.Struct, gc=False):
    """A Commit."""

    try_: TryNumber = msgspec.field(default=1, name="try")
    status: Status = "ok"
    lines: tuple[Offset, ...] = ()
    failure: FailureKind | None = None
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    tags: tuple[str, ...] = ()


class TableEnd(TableCommit, tag="end", tag_field="type", gc=False, kw_only=True):
    """An End."""

    index: CaseIndex
    case: str
    set: str
    subject: str
    stage: str


class TableRecord(msgspec.Struct, tag="record", tag_field="type", gc=False):
    """A Record."""

    index: CaseIndex
    case: str
    set: str
    subject: str
    part: str = ""
    end: TableCommit | None = None


class TableScore(msgspec.Struct, tag="score", tag_field="type", gc=False):
    """A Score."""

    index: CaseIndex
    scorer: str
    metric: str
    part: str = ""
    vote: int = 0
    status: ScoreStatus = "scored"
    value: float | None = None
    data: msgspec.Raw = _NOTHING
    tags: tuple[str, ...] = ()
    interim: bool = False
    end: TableCommit | None = None


TABLE_RECORDS = msgspec.json.Decoder(TableEnd | TableRecord)
TABLE_SCORES = msgspec.json.Decoder(TableEnd | TableScore)


class CallKey(msgspec.Struct, tag="call", tag_field="type"):
    """What a Call asked, and whether it failed."""

    case: str
    stage: str
    hash: str
    n: int
    failure: FailureKind | None = None


CALL_KEYS = msgspec.json.Decoder(CallKey)
