"""Builds samples from the values in files, and reports what no schema can express: missing ids, unknown sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from assay.core.errors import Problem
from assay.files.schema import KeyPath, convert
from assay.suites.memory.eval.sample import Checkpoint, MemoryPoint, Sample, SampleQuestion, SampleSession, SampleTurn
from assay.suites.memory.eval.sample_places import PlacedValue, SamplePlace
from assay.suites.memory.eval.sample_schema import (
    BlockRecord,
    CheckpointRecord,
    EvidenceRecord,
    PointRecord,
    SampleRecord,
    SessionRecord,
    TurnRecord,
    make_point,
    scalar_text,
)


def build_sample(place: SamplePlace, problems: list[Problem]) -> Sample | None:
    """Build a sample. Adds all problems, and returns None if a value is missing or has a wrong type."""
    problems_before = len(problems)
    sample = convert(place.sample.value, SampleRecord, place.sample.source, problems)
    blocks = _convert_value(place.points, list[BlockRecord], problems)
    checkpoints = _convert_value(place.checkpoints, list[CheckpointRecord], problems)
    if sample is not None:
        _add_missing_keys(place.sample, problems)
    if checkpoints is not None:
        _add_missing_evidence(place.checkpoints, checkpoints, problems)
    if sample is None or blocks is None or checkpoints is None or len(problems) > problems_before:
        return None
    _add_id_problems(place, sample, blocks, checkpoints, problems)
    return _sample_of(place, sample, blocks, checkpoints)


def _convert_value(place: PlacedValue, schema: Any, problems: list[Problem]) -> Any:
    if place.value is msgspec.UNSET:
        problems.append(place.problem((), "is missing"))
        return None
    return convert(place.value, schema, place.source, problems, place.path)


def _add_missing_keys(place: PlacedValue, problems: list[Problem]) -> None:
    """Add a problem for each missing key that no schema can express, because one of two keys is enough."""
    raw = place.value
    if raw.get("sample_id") is None and raw.get("uuid") is None:
        problems.append(place.problem(("sample_id",), "is missing"))
    for number, session in enumerate(raw["sessions"]):
        if session.get("_v2_session_id") is None and session.get("session_id") is None:
            problems.append(place.problem(("sessions", number, "_v2_session_id"), "is missing"))
        for row, turn in enumerate(session["dialogue"]):
            if turn.get("content") is None and not turn.get("attachments"):
                path = ("sessions", number, "dialogue", row, "content")
                problems.append(place.problem(path, "is missing"))


def _add_missing_evidence(place: PlacedValue, checkpoints: Sequence[CheckpointRecord], problems: list[Problem]) -> None:
    for number, checkpoint in enumerate(checkpoints):
        for row, question in enumerate(checkpoint.questions):
            # `question.evidence` is None if an item is invalid. That problem is already reported.
            raw_items = place.value[number]["questions"][row].get("evidence") if question.evidence else None
            for item, raw in enumerate(raw_items or ()):
                if raw.get("memory_id") is None and raw.get("image_id") is None:
                    path = (number, "questions", row, "evidence", item, "memory_id")
                    problems.append(place.problem(path, "is missing"))


def _add_id_problems(
    place: SamplePlace,
    sample: SampleRecord,
    blocks: Sequence[BlockRecord],
    checkpoints: Sequence[CheckpointRecord],
    problems: list[Problem],
) -> None:
    """Add a problem for each duplicate id and each unknown session, and a warning for checkpoints without sessions."""
    sessions = []
    for number, session in enumerate(sample.sessions):
        key = "_v2_session_id" if session.v2_id is not None else "session_id"
        sessions.append((_session_id(session), place.sample, ("sessions", number, key)))
    add_duplicates(sessions, problems)
    session_ids = {name for name, _, _ in sessions}

    def check_session(name: Any, where: PlacedValue, path: KeyPath) -> None:
        if str(name) not in session_ids:
            problems.append(where.problem(path, f"the sample has no session {str(name)!r}"))

    for number, block in enumerate(blocks):
        check_session(block.session_id, place.points, (number, "session_id"))
    ids = []
    for number, checkpoint in enumerate(checkpoints):
        ids.append((str(checkpoint.checkpoint_id), place.checkpoints, (number, "checkpoint_id")))
        for row, name in enumerate(checkpoint.covered_sessions or ()):
            check_session(name, place.checkpoints, (number, "covered_sessions", row))
        if not checkpoint.covered_sessions:
            message = "names no session, so the checkpoint is asked after the last session"
            path = (number, "covered_sessions")
            problems.append(place.checkpoints.problem(path, message, "warning"))
    add_duplicates(ids, problems)


def add_duplicates(names: Iterable[tuple[str, PlacedValue, KeyPath]], problems: list[Problem]) -> None:
    """Add a problem for each id that occurs twice. An item has an id and its place."""
    first_places: dict[str, str] = {}
    for name, place, path in names:
        where = place.name(path)
        first = first_places.setdefault(name, where)
        if first != where:
            problems.append(place.problem(path, f"duplicate id {name!r}, first used at {first}"))


def _sample_of(
    place: SamplePlace,
    sample: SampleRecord,
    blocks: Sequence[BlockRecord],
    checkpoints: Sequence[CheckpointRecord],
) -> Sample:
    points: dict[str, list[MemoryPoint]] = {}
    raw_sessions = place.sample.value["sessions"]
    for session, raw in zip(sample.sessions, raw_sessions, strict=True):
        raw_points = raw.get("memory_points") or []
        session_points = points.setdefault(_session_id(session), [])
        session_points += map(_point_of, session.memory_points or (), raw_points)
    for block, raw in zip(blocks, place.points.value, strict=True):
        session_points = points.setdefault(str(block.session_id), [])
        session_points += map(_point_of, block.memory_points, raw["memory_points"])
    contents = {point.memory_id: point.content for group in points.values() for point in group}
    sessions = []
    for session in sample.sessions:
        name = _session_id(session)
        turns = tuple(_turn_of(turn) for turn in session.dialogue)
        sessions.append(SampleSession(name, turns, tuple(points[name])))
    return Sample(
        str(sample.sample_id if sample.sample_id is not None else sample.uuid),
        str(sample.uuid if sample.uuid is not None else sample.sample_id),
        tuple(sessions),
        tuple(_checkpoint_of(checkpoint, contents) for checkpoint in checkpoints),
    )


def _session_id(session: SessionRecord) -> str:
    return str(session.session_id if session.v2_id is None else session.v2_id)


def _point_of(point: PointRecord, raw: dict[str, Any]) -> MemoryPoint:
    return make_point(
        str(point.memory_id),
        point.memory_content,
        point.memory_source,
        point.is_update,
        point.original_memories,
        raw,
    )


def _turn_of(turn: TurnRecord) -> SampleTurn:
    captions = [image.caption for image in turn.attachments or () if image.caption and image.caption.strip()]
    return SampleTurn(turn.role, turn.content or "", scalar_text(turn.timestamp), tuple(captions))


def _checkpoint_of(checkpoint: CheckpointRecord, contents: dict[str, str]) -> Checkpoint:
    questions = []
    for question in checkpoint.questions:
        evidence = tuple(_evidence_id(item) for item in question.evidence or ())
        questions.append(
            SampleQuestion(
                text=question.question,
                answer=scalar_text(question.answer),
                evidence=evidence,
                contents=tuple(contents[name] for name in evidence if name in contents),
                type=question.question_type or "",
                abbrev=question.question_type_abbrev or "",
                difficulty=scalar_text(question.difficulty),
                date=scalar_text(question.date),
            )
        )
    covered = tuple(str(name) for name in checkpoint.covered_sessions or ())
    return Checkpoint(str(checkpoint.checkpoint_id), covered, tuple(questions))


def _evidence_id(evidence: EvidenceRecord) -> str:
    return str(evidence.memory_id if evidence.memory_id is not None else evidence.image_id)
