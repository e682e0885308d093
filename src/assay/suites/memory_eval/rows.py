"""The lines of the format's files, key by key in the document's order.

What is written has every key. What is read may lack those that have a default here: files of other tools do.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, field


class Held(Struct, frozen=True):
    """A memory in a snapshot."""

    memory_id: str
    text: str
    session_id: str
    status: str = "active"
    source: str = ""
    raw_backend_id: str | int | None = None
    raw_backend_type: str = "linear"
    metadata: dict[str, Any] = field(default_factory=dict)


class Delta(Struct, frozen=True):
    """What a session changed: `add`, `update`, `archive`, or `keep`, which is the same text under another id.

    `linked_previous` are ids that it replaces.
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


class Labelled(Struct, frozen=True):
    """A written memory, by its place among those that were judged, from 1."""

    id: int
    label: str | None


class Handled(Struct, frozen=True):
    """An update or an interfering point; the label is null where the judge gave none."""

    memory_id: str
    label: str | None
    reasoning: str = ""


class SessionEval(Struct, frozen=True, kw_only=True):
    """What the judge said of a session. Null is "does not apply" or "not judged", never 0."""

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
    correctness_records: list[Labelled] = field(default_factory=list)
    update_score: float | None = None
    update_num_updated: int = 0
    update_num_both: int = 0
    update_num_outdated: int = 0
    update_total_items: int = 0
    update_records: list[Handled] = field(default_factory=list)
    interference_score: float | None = None
    interference_num_rejected: int = 0
    interference_num_memorized: int = 0
    interference_total_items: int = 0
    interference_records: list[Handled] = field(default_factory=list)


class SessionRow(Struct, frozen=True, kw_only=True):
    """A line of `pipeline_sessions.jsonl`; with `eval`, of `session_records.jsonl`."""

    sample_id: str
    sample_uuid: str = ""
    session_id: str
    memory_snapshot: list[Held]
    memory_delta: list[Delta]
    gold_state: GoldState
    eval: SessionEval | UnsetType = UNSET


class Retrieved(Struct, frozen=True):
    """An item that was found for a question, best first."""

    rank: int
    memory_id: str
    text: str
    score: float | None = None
    raw_backend_id: str | int | None = None


class Retrieval(Struct, frozen=True):
    """What a question found."""

    query: str
    top_k: int
    items: list[Retrieved]
    raw_trace: dict[str, Any] = field(default_factory=dict)


class QaEval(Struct, frozen=True, kw_only=True):
    """What the judge said of an answer and of the memories that it cites."""

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


encode = msgspec.json.Encoder().encode
