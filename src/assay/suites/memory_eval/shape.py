"""Samples by the types of their values: what is right is read fast, what is wrong `explaining` tells."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from assay.suites.memory_eval.sample import Checkpoint, Point, Question, Sample, Session, Turn
from assay.suites.memory_eval.sources import Parts

INTERFERENCE = "interference"
"""The `memory_source` of points that no memory should keep."""
TRUTHS = {"true": True, "false": False, "": False}
"""What `is_update` may be as a text, in any case."""

Filled = Annotated[str, Meta(pattern=r"\S")]
Name = Filled | int
Words = str | int | float | bool


class _Image(Struct):
    caption: str | None = None


class _Turn(Struct):
    role: Filled
    content: str | None = None
    timestamp: Words | None = None
    attachments: list[_Image] | None = None


class _Session(Struct):
    dialogue: list[_Turn]
    v2_id: Name | None = field(name="_v2_session_id", default=None)
    session_id: Name | None = None
    memory_points: list[dict[str, Any]] | None = None


class _Point(Struct):
    memory_id: Name
    memory_content: Filled
    memory_source: str | None = None
    is_update: bool | Annotated[str, Meta(pattern=r"(?i)^\s*(true|false)?\s*$")] | None = None
    original_memories: list[str] | str | None = None


class _Block(Struct):
    session_id: Name
    memory_points: list[dict[str, Any]]


class _Evidence(Struct):
    memory_id: Name | None = None
    image_id: Name | None = None


class _Question(Struct):
    question: Filled
    answer: Words
    evidence: list[_Evidence] | None = None
    question_type: str | None = None
    question_type_abbrev: str | None = None
    difficulty: Words | None = None


class _Checkpoint(Struct):
    checkpoint_id: Name
    questions: list[_Question]
    covered_sessions: list[Name] | None = None


class _Sample(Struct):
    sessions: Annotated[list[_Session], Meta(min_length=1)]
    sample_id: Name | None = None
    uuid: Name | None = None


def sample_of(parts: Parts) -> Sample | None:
    """The sample; None where a value is missing or of another type than it must be."""
    try:
        sample = msgspec.convert(parts.sample.value, _Sample)
        blocks = msgspec.convert(parts.points.value, list[_Block])
        checkpoints = msgspec.convert(parts.checkpoints.value, list[_Checkpoint])
        inside = [(_id(each), each.memory_points or []) for each in sample.sessions]
        found = [*inside, *((str(each.session_id), each.memory_points) for each in blocks)]
        points = _points(found)
        contents = _contents(points)
        return Sample(
            _first(sample.sample_id, sample.uuid),
            _first(sample.uuid, sample.sample_id),
            tuple(_session(each, points) for each in sample.sessions),
            tuple(_checkpoint(each, contents) for each in checkpoints),
        )
    except msgspec.ValidationError:
        return None


def _words(value: Words | None) -> str:
    """A text; a number or a truth as JSON spells it."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _first(*names: str | int | None) -> str:
    """The first of these names that is there."""
    for name in names:
        if name is not None:
            return str(name)
    raise msgspec.ValidationError("there is no name")


def _id(session: _Session) -> str:
    return _first(session.v2_id, session.session_id)


def _points(found: list[tuple[str, list[dict[str, Any]]]]) -> dict[str, tuple[Point, ...]]:
    """The points of each session."""
    points: dict[str, tuple[Point, ...]] = {}
    for session, raws in found:
        points[session] = points.get(session, ()) + tuple(map(_point, raws))
    return points


def _contents(points: dict[str, tuple[Point, ...]]) -> dict[str, str]:
    """What each memory id stands for."""
    return {point.memory_id: point.content for each in points.values() for point in each}


def _point(raw: dict[str, Any]) -> Point:
    point = msgspec.convert(raw, _Point)
    update, original = point.is_update, point.original_memories or ()
    return Point(
        str(point.memory_id),
        point.memory_content,
        (point.memory_source or "").strip().lower() == INTERFERENCE,
        TRUTHS[update.strip().lower()] if isinstance(update, str) else bool(update),
        tuple(text for text in ((original,) if isinstance(original, str) else original) if text.strip()),
        raw,
    )


def _session(session: _Session, points: dict[str, tuple[Point, ...]]) -> Session:
    name = _id(session)
    return Session(name, tuple(map(_turn, session.dialogue)), points.get(name, ()))


def _turn(turn: _Turn) -> Turn:
    """What was said; a turn may show images alone."""
    if not turn.attachments:
        if turn.content is None:
            raise msgspec.ValidationError("there is no content")
        return Turn(turn.role, turn.content, _words(turn.timestamp))
    captions = (each.caption or "" for each in turn.attachments)
    shown = tuple(caption for caption in captions if caption.strip())
    return Turn(turn.role, turn.content or "", _words(turn.timestamp), shown)


def _checkpoint(checkpoint: _Checkpoint, contents: dict[str, str]) -> Checkpoint:
    questions = tuple(_question(each, contents) for each in checkpoint.questions)
    covered = tuple(map(str, checkpoint.covered_sessions or ()))
    return Checkpoint(str(checkpoint.checkpoint_id), covered, questions)


def _question(question: _Question, contents: dict[str, str]) -> Question:
    evidence = tuple(_first(each.memory_id, each.image_id) for each in question.evidence or ())
    return Question(
        text=question.question,
        answer=_words(question.answer),
        evidence=evidence,
        contents=tuple(contents[name] for name in evidence if name in contents),
        type=question.question_type or "",
        abbrev=question.question_type_abbrev or "",
        difficulty=_words(question.difficulty),
    )
