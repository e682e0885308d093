"""Reads the lines of session and question files for `assay import`, whoever wrote them.

    lines = RecordFile(folder / "qa_records.jsonl", QaLine)
    for line in lines.of("june"):
        line.content.question, line.verdicts

Files with verdicts (`session_records.jsonl`, `qa_records.jsonl`) and those without (`pipeline_*.jsonl`) have the same
lines. Other tools leave keys of `eval` out or write null, so its structs here have a default for every key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from assay.core.errors import InputError, Problem
from assay.files.read import BY_PROGRAMS, convert_json, decode_json, json_lines, line_at, without_nan
from assay.suites.memory.eval.result_lines import QaLine, SessionLine

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class ItemVerdict(Struct):
    """The label of one text that a session stored."""

    label: str | None = None


class PointVerdict(Struct):
    """The label of an update or interference point."""

    memory_id: str | int
    label: str | None = None
    reasoning: str | None = None


class SessionVerdicts(Struct, kw_only=True):
    """`eval` of a session, as `SessionEval`. None means that the file does not have the key, or null."""

    recall: Share | None = None
    covered_count: Count | None = None
    num_gold: Count | None = None
    update_recall: Share | None = None
    update_covered_count: Count | None = None
    update_total: Count | None = None
    recall_reasoning: str | None = None
    correctness_rate: Share | None = None
    num_memories: Count | None = None
    num_correct: Count | None = None
    num_hallucination: Count | None = None
    correctness_reasoning: str | None = None
    correctness_records: list[ItemVerdict] = field(default_factory=list)
    update_total_items: Count | None = None
    update_records: list[PointVerdict] = field(default_factory=list)
    interference_total_items: Count | None = None
    interference_records: list[PointVerdict] = field(default_factory=list)


class QaVerdicts(Struct, kw_only=True):
    """`eval` of a question, as `QaEval`."""

    answer_label: str | None = None
    answer_reasoning: str | None = None
    answer_is_valid: bool | None = None
    evidence_hit_rate: Share | None = None
    evidence_covered_count: Count | None = None
    num_evidence: Count | None = None
    evidence_reasoning: str | None = None


LineT = TypeVar("LineT", SessionLine, QaLine)


class RecordLine(NamedTuple, Generic[LineT]):
    """One line: its place, its content without `eval`, the JSON value in the file, and `eval` if it has one."""

    where: str
    content: LineT
    value: dict[str, Any]
    verdicts: Any


class RecordFile(Generic[LineT]):
    """One file. Keeps only the places of its lines: snapshots make the files large."""

    def __init__(self, path: Path, kind: type[LineT]) -> None:
        self.path = path
        self._kind: type[LineT] = kind
        self._places = sample_line_offsets(path)

    @property
    def samples(self) -> list[str]:
        """The sample ids in order of first appearance."""
        return list(self._places)

    def of(self, sample: str) -> Iterator[RecordLine[LineT]]:
        """Yield the lines of a sample. Raises InputError for a line that the format does not have."""
        places = self._places.get(sample, ())
        with self.path.open("rb") as file:
            for number, offset in zip(places[::2], places[1::2], strict=True):
                where = f"{self.path}:{number}"
                value = without_nan(decode_json(line_at(file, offset, BY_PROGRAMS), where))
                raw = {key: item for key, item in value.items() if key != "eval"}
                yield RecordLine(where, convert_json(raw, self._kind, where), raw, value.get("eval"))


def sample_line_offsets(path: Path) -> dict[str, array[int]]:
    """Return the places of each sample's lines, a flat array of line number, offset, line number, offset."""
    places: dict[str, array[int]] = {}
    for line in json_lines(path, BY_PROGRAMS):
        name = _sample_id(line.raw, f"{path}:{line.number}")
        places.setdefault(name, array("q")).extend((line.number, line.offset))
    if not places:
        raise InputError(Problem(str(path), "has no lines"))
    return places


class _LineOwner(Struct):
    """The sample that a line belongs to. The rest of the line is decoded when the sample is imported."""

    sample_id: str


_decoder = msgspec.json.Decoder(_LineOwner)


def _sample_id(raw: bytes, where: str) -> str:
    try:
        return _decoder.decode(raw).sample_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Slow, but it reads NaN, and its messages say what is wrong with other lines.
        return convert_json(decode_json(raw, where), _LineOwner, where).sample_id


def read_session_verdicts(line: RecordLine[SessionLine]) -> SessionVerdicts | None:
    """Return the verdicts on a session; None if the line has none."""
    return None if line.verdicts is None else convert_json(line.verdicts, SessionVerdicts, line.where)


def read_qa_verdicts(line: RecordLine[QaLine]) -> QaVerdicts | None:
    """Return the verdicts on a question; None if the line has none."""
    return None if line.verdicts is None else convert_json(line.verdicts, QaVerdicts, line.where)
