"""The lines of the format's files, key by key in the document's order, and what scorers read out of them.

Every key is written. A key with a default here may be missing in files that are read: other tools leave it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.core.hashing import Twins


class SnapshotMemory(Struct, frozen=True):
    """A memory in a snapshot."""

    memory_id: str
    text: str
    session_id: str
    status: str = "active"
    source: str = ""
    raw_backend_id: str | int | None = None
    raw_backend_type: str = "linear"
    metadata: dict[str, Any] = field(default_factory=dict)


class MemoryDelta(Struct, frozen=True):
    """What a session changed: `add`, `update`, `archive`, or `keep` (the same text under another id).

    `linked_previous` are the ids that it replaces.
    """

    session_id: str
    op: str
    text: str
    linked_previous: list[str] = field(default_factory=list)
    raw_backend_id: str | int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class GoldState(Struct, frozen=True):
    """What should be known after a session; points are as the data has them."""

    session_id: str
    cumulative_gold_memories: list[Any] = field(default_factory=list)
    session_new_memories: list[Any] = field(default_factory=list)
    session_update_memories: list[Any] = field(default_factory=list)
    session_interference_memories: list[Any] = field(default_factory=list)


class MemoryLabel(Struct, frozen=True):
    """The label of a written memory. `id` is its place among those that were judged, from 1."""

    id: int
    label: str | None


class PointLabel(Struct, frozen=True):
    """The label of an update or an interfering point; null where the judge gave none."""

    memory_id: str
    label: str | None
    reasoning: str = ""


class SessionEval(Struct, frozen=True, kw_only=True):
    """The judge's labels of a session as numbers. Null is "does not apply" or "not judged", never 0."""

    session_id: str
    recall: float | None = None
    covered_count: int = 0
    num_gold: int = 0
    update_recall: float | None = None
    update_covered_count: int = 0
    update_total: int = 0
    recall_reasoning: str = ""
    correctness_rate: float | None = None
    num_memories: int = 0
    num_correct: int = 0
    num_hallucination: int = 0
    num_irrelevant: int = 0
    correctness_reasoning: str = ""
    correctness_records: list[MemoryLabel] = field(default_factory=list)
    update_score: float | None = None
    update_num_updated: int = 0
    update_num_both: int = 0
    update_num_outdated: int = 0
    update_total_items: int = 0
    update_records: list[PointLabel] = field(default_factory=list)
    interference_score: float | None = None
    interference_num_rejected: int = 0
    interference_num_memorized: int = 0
    interference_total_items: int = 0
    interference_records: list[PointLabel] = field(default_factory=list)


class SessionRow(Struct, frozen=True, kw_only=True):
    """A line of `pipeline_sessions.jsonl`; with `eval`, of `session_records.jsonl`."""

    sample_id: str
    sample_uuid: str = ""
    session_id: str
    memory_snapshot: list[SnapshotMemory]
    memory_delta: list[MemoryDelta]
    gold_state: GoldState
    eval: SessionEval | UnsetType = UNSET


class RetrievedItem(Struct, frozen=True):
    """An item that the memory returned for a question, best first."""

    rank: int
    memory_id: str
    text: str
    score: float | None = None
    raw_backend_id: str | int | None = None


class Retrieval(Struct, frozen=True):
    """What the memory returned for a question."""

    query: str
    top_k: int
    items: list[RetrievedItem]
    raw_trace: dict[str, Any] = field(default_factory=dict)


class QaEval(Struct, frozen=True, kw_only=True):
    """The judge's labels of an answer and of the memories that it cites."""

    answer_label: str | None = None
    answer_reasoning: str = ""
    answer_is_valid: bool = False
    evidence_hit_rate: float | None = None
    evidence_covered_count: int = 0
    num_evidence: int = 0
    evidence_reasoning: str = ""
    num_cited_memories: int = 0


class QaRow(Struct, frozen=True, kw_only=True):
    """A line of `pipeline_qa.jsonl`; with `eval`, of `qa_records.jsonl`."""

    sample_id: str
    sample_uuid: str = ""
    checkpoint_id: str
    question: str
    gold_answer: str
    gold_evidence_memory_ids: list[str] = field(default_factory=list)
    gold_evidence_contents: list[str] = field(default_factory=list)
    question_type: str = ""
    question_type_abbrev: str = ""
    difficulty: str = ""
    retrieval: Retrieval
    generated_answer: str
    cited_memories: list[str] = field(default_factory=list)
    eval: QaEval | UnsetType = UNSET


class SampleRows(NamedTuple):
    """All lines of one sample with one memory, in the order of the files."""

    sessions: list[SessionRow]
    questions: list[QaRow]


encode = msgspec.json.Encoder().encode


# What scorers read out of rows.

# The keys that may hold the text of a point.
_CONTENT_KEYS = ("memory_content", "content")
# The changes whose texts a session wrote.
_WRITTEN = ("add", "update")


class GoldPoint(NamedTuple):
    """A point of a row. `name` is its id, with `~2` for the second of equal ids in its list."""

    memory_id: str
    name: str
    content: str
    original: tuple[str, ...]


def gold_points(raw_points: Sequence[Any]) -> list[GoldPoint]:
    """The points that have a text. One without an id is named by its place in the list, from 1."""
    ids, kept = [], []
    for number, raw in enumerate(raw_points, 1):
        if point_text(raw):
            memory_id = raw.get("memory_id") if isinstance(raw, dict) else None
            ids.append(str(number) if memory_id in (None, "") else str(memory_id))
            kept.append(raw)
    return [
        GoldPoint(memory_id, name, point_text(raw), _original_texts(raw))
        for memory_id, name, raw in zip(ids, unique_names(ids), kept, strict=True)
    ]


def point_text(raw: Any) -> str:
    """The text of a point: `memory_content`, or `content`, or the point itself where it is a text."""
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, dict):
        for key in _CONTENT_KEYS:
            if isinstance(raw.get(key), str):
                text: str = raw[key]
                return text.strip()
    return ""


def _original_texts(raw: Any) -> tuple[str, ...]:
    """What an update replaces: a list of texts or points, or one of them."""
    original = raw.get("original_memories") if isinstance(raw, dict) else None
    if original is None:
        return ()
    listed = original if isinstance(original, list) else [original]
    return tuple(text for text in map(point_text, listed) if text)


def earlier_points(gold: GoldState) -> tuple[str, ...]:
    """The texts of points of earlier sessions: those that are cumulative and not of this session."""
    own = {
        point.content
        for raw in (gold.session_new_memories, gold.session_update_memories)
        for point in gold_points(raw)
    }
    texts = map(point_text, gold.cumulative_gold_memories)
    return tuple(text for text in texts if text and text not in own)


def written_texts(row: SessionRow) -> tuple[str, ...]:
    """The texts that a session added or changed. They are judged for recall and correctness."""
    return tuple(delta.text for delta in row.memory_delta if delta.op in _WRITTEN)


def active_texts(row: SessionRow) -> tuple[str, ...]:
    """The texts of all active memories after a session."""
    return tuple(item.text for item in row.memory_snapshot if item.status == "active")


def session_parts(rows: Iterable[SessionRow]) -> list[str]:
    """The part of the scores of each session of one sample: its id."""
    return unique_names([row.session_id for row in rows])


def question_parts(rows: Iterable[QaRow]) -> list[str]:
    """The part of the scores of each question of one sample: CHECKPOINT/NUMBER, counted from 1."""
    counts: Counter[str] = Counter()
    parts = []
    for row in rows:
        counts[row.checkpoint_id] += 1
        parts.append(f"{row.checkpoint_id}/{counts[row.checkpoint_id]}")
    return parts


def unique_names(names: Sequence[str]) -> list[str]:
    """Each name; the second of equal ones gets `~2`."""
    twins = Twins(name for name, count in Counter(names).items() if count > 1)
    return [twins.name(name) for name in names]


class AnswerRow(NamedTuple):
    """An answer with its reference. `part` names it among the scores, `about` goes into their data."""

    part: str
    answer: str
    reference: str
    about: dict[str, Any]


def answer_rows(rows: Sequence[QaRow]) -> list[AnswerRow]:
    """The answers of one sample, in order."""
    return [
        AnswerRow(part, row.generated_answer, row.gold_answer, score_data(row))
        for part, row in zip(question_parts(rows), rows, strict=True)
    ]


def score_data(row: QaRow) -> dict[str, Any]:
    """What every score of a question says about it."""
    return {"id": row.sample_id, "type": row.question_type_abbrev, "difficulty": row.difficulty}
