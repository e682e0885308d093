"""The schema of sample files: structs that `files/schema.py` checks values against, and what both layouts share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from assay.files.schema import Filled, Name, Scalar
from assay.suites.memory.eval.sample import MemoryPoint

MAIN, POINTS, CHECKPOINTS = "domain_a_v2.json", "stage4_memory_points.jsonl", "stage4b_qa_checkpoints.jsonl"
"""File names of the older layout."""
INTERFERENCE = "interference"
"""`memory_source` of points that a memory should not store."""

# `is_update` is a boolean, or one of the texts that generated data has: "True", "false", "".
Truth = bool | Annotated[str, Meta(pattern=r"(?i)^\s*(true|false)?\s*$")]


class ImageRecord(Struct):
    """An image of a turn. Memories see its caption."""

    caption: str | None = None
    image_id: Any = None


class TurnRecord(Struct):
    """A turn of a dialogue. `content` is optional if the turn has attachments."""

    role: Filled
    content: str | None = None
    timestamp: Scalar | None = None
    attachments: list[ImageRecord] | None = None


class PointRecord(Struct):
    """A memory point."""

    memory_id: Name
    memory_content: Filled
    memory_source: str | None = None
    is_update: Annotated[Truth | None, Meta(description="true or false")] = None
    original_memories: list[str] | str | None = None


class SessionRecord(Struct):
    """A session. Its points are in `memory_points` here, or in a block of the sample."""

    dialogue: list[TurnRecord]
    v2_id: Name | None = field(name="_v2_session_id", default=None)
    session_id: Name | None = None
    memory_points: list[PointRecord] | None = None


class BlockRecord(Struct):
    """A block: the points of one session, in a list of the sample."""

    session_id: Name
    memory_points: list[PointRecord]


class EvidenceRecord(Struct):
    """Evidence of a question: a memory point or an image."""

    memory_id: Name | None = None
    image_id: Name | None = None


class QuestionRecord(Struct):
    """A question of a checkpoint."""

    question: Filled
    answer: Scalar
    evidence: list[EvidenceRecord] | None = None
    question_type: str | None = None
    question_type_abbrev: str | None = None
    difficulty: Scalar | None = None
    date: Scalar | None = None


class CheckpointRecord(Struct):
    """A checkpoint: questions that are asked after the last session it covers."""

    checkpoint_id: Name
    questions: list[QuestionRecord]
    covered_sessions: list[Name] | None = None


SESSIONS_PROBLEM = "is empty: a sample needs at least one session"


class SampleRecord(Struct):
    """A sample without its points and checkpoints: in the older layout these are in other files."""

    sessions: Annotated[list[SessionRecord], Meta(min_length=1, extra={"problem": SESSIONS_PROBLEM})]
    sample_id: Name | None = None
    uuid: Name | None = None


def make_point(
    memory_id: str,
    content: str,
    source: str | None,
    update: bool | str | None,
    original: list[str] | str | None,
    raw: dict[str, Any],
) -> MemoryPoint:
    """Build a point from the values of the data, where a truth may be a text and a list may be a single text."""
    if isinstance(update, str):
        update = update.strip().lower() == "true"
    texts = [original] if isinstance(original, str) else original or []
    return MemoryPoint(
        memory_id,
        content,
        (source or "").strip().lower() == INTERFERENCE,
        bool(update),
        tuple(text for text in texts if text.strip()),
        raw,
    )


def scalar_text(value: str | float | bool | None) -> str:
    """Return a text unchanged, and a number or boolean as JSON writes it."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
