"""The lines of the format's JSONL files as structs, and functions that extract from them what scorers need.

The fields have the order of the format's description, and all of them are written. A field with a default may be
missing in files that are read, because other tools leave it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.core.row_keys import UniqueKeys, row_key


class SnapshotMemory(Struct, frozen=True):
    """One stored item in a snapshot. The format calls it a memory."""

    memory_id: str
    text: str
    session_id: str
    status: str = "active"
    source: str = ""
    raw_backend_id: str | int | None = None
    raw_backend_type: str = "linear"
    metadata: dict[str, Any] = field(default_factory=dict)


class MemoryDelta(Struct, frozen=True):
    """One change by a session. `op` is `add`, `update`, `archive`, or `keep` (same text under a new id).

    `linked_previous` are the ids of the items that this one replaces.
    """

    session_id: str
    op: str
    text: str
    linked_previous: list[str] = field(default_factory=list)
    raw_backend_id: str | int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class GoldState(Struct, frozen=True):
    """The memory points (facts to store, update or reject) of a session and of all sessions so far, as in the data."""

    session_id: str
    cumulative_gold_memories: list[Any] = field(default_factory=list)
    session_new_memories: list[Any] = field(default_factory=list)
    session_update_memories: list[Any] = field(default_factory=list)
    session_interference_memories: list[Any] = field(default_factory=list)


class MemoryLabel(Struct, frozen=True):
    """The judge's label for a text that the session stored. `id` is the number of the text in its session, from 1."""

    id: int
    label: str | None


class PointLabel(Struct, frozen=True):
    """The judge's label for an update or interference point; null if its verdict was not valid."""

    memory_id: str
    label: str | None
    reasoning: str = ""


class SessionEval(Struct, frozen=True, kw_only=True):
    """`eval` of a session: the judge's labels as numbers.

    A null rate means "does not apply" or "not judged". A null count means that there was something to judge and no
    verdict.
    """

    session_id: str
    recall: float | None = None
    covered_count: int | None = 0
    num_gold: int = 0
    update_recall: float | None = None
    update_covered_count: int | None = 0
    update_total: int = 0
    recall_reasoning: str = ""
    correctness_rate: float | None = None
    num_memories: int = 0
    num_correct: int | None = 0
    num_hallucination: int | None = 0
    num_irrelevant: int | None = 0
    correctness_reasoning: str = ""
    correctness_records: list[MemoryLabel] = field(default_factory=list)
    update_score: float | None = None
    update_num_updated: int | None = 0
    update_num_both: int | None = 0
    update_num_outdated: int | None = 0
    update_total_items: int | None = 0
    update_records: list[PointLabel] = field(default_factory=list)
    interference_score: float | None = None
    interference_num_rejected: int | None = 0
    interference_num_memorized: int | None = 0
    interference_total_items: int | None = 0
    interference_records: list[PointLabel] = field(default_factory=list)


class SessionLine(Struct, frozen=True, kw_only=True):
    """A line of `pipeline_sessions.jsonl`, or with `eval` of `session_records.jsonl`."""

    sample_id: str
    sample_uuid: str = ""
    session_id: str
    memory_snapshot: list[SnapshotMemory]
    memory_delta: list[MemoryDelta]
    gold_state: GoldState
    eval: SessionEval | UnsetType = UNSET


class RetrievedItem(Struct, frozen=True):
    """An item that the memory returned for a question. `rank` 0 is the best."""

    rank: int
    memory_id: str
    text: str
    score: float | None = None
    raw_backend_id: str | int | None = None


class Retrieval(Struct, frozen=True):
    """The search for a question and its results."""

    query: str
    top_k: int
    items: list[RetrievedItem]
    raw_trace: dict[str, Any] = field(default_factory=dict)


class QaEval(Struct, frozen=True, kw_only=True):
    """`eval` of a question: the judge's labels of the answer and of the evidence in the cited items.

    `evidence_covered_count` is null if there is evidence and no verdict about it.
    """

    answer_label: str | None = None
    answer_reasoning: str = ""
    answer_is_valid: bool = False
    evidence_hit_rate: float | None = None
    evidence_covered_count: int | None = 0
    num_evidence: int = 0
    evidence_reasoning: str = ""
    num_cited_memories: int = 0


class QaLine(Struct, frozen=True, kw_only=True):
    """A line of `pipeline_qa.jsonl`, or with `eval` of `qa_records.jsonl`."""

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


class SampleResults(NamedTuple):
    """The lines of one sample with one memory, in the order of the files."""

    sessions: list[SessionLine]
    questions: list[QaLine]


encode = msgspec.json.Encoder().encode

CITES = "cites"
"""Key of `raw_trace`. It is False if the answer prompt asks for no citations: their coverage is then not measured."""
FAILED = "failed"
"""Key of `raw_trace` beside `error`. It is "answer" if the call of the answer failed, and absent after a search."""

FILES_SET = "files"
"""The set of samples that are known from result files only, not from their data."""


def sample_key(results: SampleResults) -> str:
    """Return the key of a sample in result files: its gold and questions, which are the same for every memory."""
    gold = [[line.sample_id, line.session_id, line.gold_state] for line in results.sessions]
    questions = [[line.sample_id, line.checkpoint_id, line.question, line.gold_answer] for line in results.questions]
    return row_key(encode([gold, questions]))


# What scorers extract from lines.

# Keys with the text of a point. Some tools write `content`.
_CONTENT_KEYS = ("memory_content", "content")
# Changes that write a text.
_WRITTEN = ("add", "update")


class GoldPoint(NamedTuple):
    """A fact that a memory should store, update or reject. The format calls it a memory point.

    `name` is unique in its line: it is the id, and the second point with the same id gets the suffix `~2`.
    `original` has the texts that an update replaces.
    """

    memory_id: str
    name: str
    content: str
    original: tuple[str, ...]


def gold_points(raw_points: Sequence[Any]) -> list[GoldPoint]:
    """Return the points that have a text. A point without an id gets its number in the list, from 1."""
    ids, texts, points_with_text = [], [], []
    for number, raw in enumerate(raw_points, 1):
        if text := point_text(raw):
            memory_id = raw.get("memory_id") if isinstance(raw, dict) else None
            ids.append(str(number) if memory_id in (None, "") else str(memory_id))
            texts.append(text)
            points_with_text.append(raw)
    return [
        GoldPoint(memory_id, name, text, _original_texts(raw))
        for memory_id, name, text, raw in zip(ids, unique_names(ids), texts, points_with_text, strict=True)
    ]


def point_text(raw: Any) -> str:
    """Return the text of a point: `memory_content`, `content`, or the point itself if it is a string. May be empty."""
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, dict):
        for key in _CONTENT_KEYS:
            if isinstance(raw.get(key), str):
                text: str = raw[key]
                return text.strip()
    return ""


def _original_texts(raw: Any) -> tuple[str, ...]:
    """Return the texts that an update replaces. In the data they are a text, a point, or a list of either."""
    original = raw.get("original_memories") if isinstance(raw, dict) else None
    if original is None:
        return ()
    originals = original if isinstance(original, list) else [original]
    return tuple(text for text in map(point_text, originals) if text)


def earlier_points(gold: GoldState) -> tuple[str, ...]:
    """Return the texts of the points of earlier sessions: the cumulative points without those of this session."""
    session_texts = {
        *map(point_text, gold.session_new_memories),
        *map(point_text, gold.session_update_memories),
    }
    texts = map(point_text, gold.cumulative_gold_memories)
    return tuple(text for text in texts if text and text not in session_texts)


def written_texts(line: SessionLine) -> tuple[str, ...]:
    """Return the texts that a session added or updated. Recall and correctness are judged on them."""
    return tuple(delta.text for delta in line.memory_delta if delta.op in _WRITTEN)


def active_texts(line: SessionLine) -> tuple[str, ...]:
    """Return the texts of all active items after a session. Updates and interference are judged on them."""
    return tuple(item.text for item in line.memory_snapshot if item.status == "active")


def session_parts(lines: Iterable[SessionLine]) -> list[str]:
    """Return the `part` of the scores of each session of one sample: the session id, made unique."""
    return unique_names([line.session_id for line in lines])


def question_parts(lines: Iterable[QaLine]) -> list[str]:
    """Return the `part` of the scores of each question of one sample: CHECKPOINT/NUMBER, counted from 1."""
    counts: Counter[str] = Counter()
    parts = []
    for line in lines:
        counts[line.checkpoint_id] += 1
        parts.append(f"{line.checkpoint_id}/{counts[line.checkpoint_id]}")
    return parts


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names made unique: the second of equal names gets `~2`."""
    if len(set(names)) == len(names):
        return list(names)
    unique_keys = UniqueKeys(name for name, count in Counter(names).items() if count > 1)
    return [unique_keys.of(name) for name in names]


class SampleAnswer(NamedTuple):
    """An answer with its reference. `part`, `question` and `about` become `part`, `label` and `data` of its scores."""

    part: str
    question: str
    answer: str
    reference: str
    about: dict[str, Any]


def sample_answers(lines: Sequence[QaLine]) -> list[SampleAnswer]:
    """Return the answers of one sample, in order."""
    return [
        SampleAnswer(part, line.question, line.generated_answer, line.gold_answer, score_data(line))
        for part, line in zip(question_parts(lines), lines, strict=True)
    ]


def score_data(line: QaLine) -> dict[str, Any]:
    """Return the data that every score of a question has: sample id, question type and difficulty."""
    return {"id": line.sample_id, "type": line.question_type_abbrev, "difficulty": line.difficulty}
