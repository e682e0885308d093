"""Reads samples in HaluMem's published schema: a line of JSON for each user, with the questions inside the sessions.

    {"uuid": …, "persona_info": …, "sessions": [{"dialogue": […], "memory_points": […], "questions": […]}]}

Sessions and points have no ids, so they get them by position: `S01`, `mp_S01_3`. The questions of a session are asked
after that session. The evidence of a question quotes the texts of memory points.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from assay.core.errors import Problem
from assay.files.json_objects import FileObject
from assay.files.schema import Filled, KeyPath, Name, Scalar, convert
from assay.suites.memory.eval.sample import Checkpoint, Sample, SampleQuestion, SampleSession, SampleTurn
from assay.suites.memory.eval.sample_schema import SESSIONS_PROBLEM, Truth, make_point, scalar_text

# The six types of HaluMem's questions. Tables group scores by the short names.
_ABBREVIATIONS = {
    "Basic Fact Recall": "BFR",
    "Multi-hop Inference": "MHI",
    "Dynamic Update": "DU",
    "Memory Boundary": "MB",
    "Generalization & Application": "GA",
    "Memory Conflict": "MC",
}


class HaluMemTurn(Struct):
    """A turn of a dialogue."""

    role: Filled
    content: str
    timestamp: Scalar | None = None


class HaluMemPoint(Struct):
    """A memory point. Its position in the session is its id."""

    memory_content: Filled
    memory_source: str | None = None
    is_update: Annotated[Truth | None, Meta(description="true or false")] = None
    original_memories: list[str] | str | None = None


class HaluMemEvidence(Struct):
    """The text of a memory point."""

    memory_content: Filled


class HaluMemQuestion(Struct):
    """A question, asked after its session."""

    question: Filled
    answer: Scalar
    evidence: list[HaluMemEvidence] | None = None
    question_type: str | None = None
    difficulty: Scalar | None = None


class HaluMemSession(Struct):
    """A session. Many sessions of the published files have no questions."""

    dialogue: list[HaluMemTurn]
    start_time: Scalar | None = None
    end_time: Scalar | None = None
    memory_points: list[HaluMemPoint] | None = None
    questions: list[HaluMemQuestion] | None = None
    is_generated_qa_session: bool | None = None
    """A chat without memory points that makes the Long files long. HaluMem evaluates nothing of it."""


class HaluMemUser(Struct):
    """A user with all sessions."""

    uuid: Name
    sessions: Annotated[list[HaluMemSession], Meta(min_length=1, extra={"problem": SESSIONS_PROBLEM})]


def is_halumem(value: dict[str, Any]) -> bool:
    """Return whether an object has HaluMem's keys: questions are in its sessions, not in checkpoints beside them."""
    sessions = value.get("sessions")
    if not isinstance(sessions, list) or value.get("uuid") is None or "qa_checkpoints" in value:
        return False
    return "persona_info" in value or any(isinstance(each, dict) and "questions" in each for each in sessions)


def build_halumem(source: FileObject, problems: list[Problem]) -> Sample | None:
    """Build a sample. Adds all problems, and returns None if a value is missing or has a wrong type."""
    problems_before = len(problems)
    user = convert(source.value, HaluMemUser, source, problems)
    # `convert` sets an optional value to None if it is wrong, so any new problem counts.
    if user is None or len(problems) > problems_before:
        return None
    sessions: list[SampleSession] = []
    checkpoints: list[Checkpoint] = []
    ids: dict[str, str] = {}  # of the points so far, by text
    for number, session in enumerate(user.sessions, 1):
        name = f"S{number:02d}"
        date = scalar_text(session.start_time)
        turns = tuple(
            SampleTurn(turn.role, turn.content, scalar_text(turn.timestamp) or date) for turn in session.dialogue
        )
        if session.is_generated_qa_session:
            sessions.append(SampleSession(name, turns))
            continue
        points = []
        raw_points = source.value["sessions"][number - 1].get("memory_points") or ()
        for place, (point, raw) in enumerate(zip(session.memory_points or (), raw_points, strict=True), 1):
            memory_id = f"mp_{name}_{place}"
            ids[point.memory_content.strip()] = memory_id
            points.append(
                make_point(
                    memory_id,
                    point.memory_content,
                    point.memory_source,
                    point.is_update,
                    point.original_memories,
                    # The output files show the point as in the data, and other tools find it by its id.
                    {"memory_id": memory_id, **raw},
                )
            )
        sessions.append(SampleSession(name, turns, tuple(points)))
        if session.questions:
            date = scalar_text(session.end_time) or date
            questions = tuple(_question_of(question, ids, date) for question in session.questions)
            checkpoints.append(Checkpoint(f"after_{name}", (name,), questions))
    return Sample(str(user.uuid), str(user.uuid), tuple(sessions), tuple(checkpoints))


def _question_of(question: HaluMemQuestion, ids: dict[str, str], date: str) -> SampleQuestion:
    texts = [evidence.memory_content for evidence in question.evidence or ()]
    kind = question.question_type or ""
    return SampleQuestion(
        text=question.question,
        answer=scalar_text(question.answer),
        evidence=tuple(ids[text.strip()] for text in texts if text.strip() in ids),
        contents=tuple(texts),
        type=kind,
        abbrev=_ABBREVIATIONS.get(kind, kind),
        difficulty=scalar_text(question.difficulty),
        date=date,
    )


def inspect_halumem(source: FileObject, sample: Sample, problems: list[Problem]) -> None:
    """Add what a run accepts but is probably wrong: empty sessions, evidence and originals that no point has."""
    earlier: set[str] = set()

    def warn(path: KeyPath, message: str) -> None:
        problems.append(source.problem(path, message, "warning"))

    for number, (session, raw) in enumerate(zip(sample.sessions, source.value["sessions"], strict=True)):
        if not session.turns:
            warn(("sessions", number, "dialogue"), "is empty: the session has no turns")
        for row, point in enumerate(session.points):
            path: KeyPath = ("sessions", number, "memory_points", row, "original_memories")
            if point.update and not point.interference and not point.original:
                warn(path, "is empty, but an update should have the texts that it replaces")
            for original in point.original:
                if original.strip() not in earlier:
                    warn(path, f"no earlier point has the text {original!r}")
            earlier.add(point.content.strip())
        if raw.get("is_generated_qa_session"):
            continue
        for row, question in enumerate(raw.get("questions") or ()):
            for item, evidence in enumerate(question.get("evidence") or ()):
                if evidence["memory_content"].strip() not in earlier:
                    path = ("sessions", number, "questions", row, "evidence", item, "memory_content")
                    warn(path, "no point of this session or an earlier one has this text")
