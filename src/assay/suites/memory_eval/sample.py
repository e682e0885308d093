"""A sample: sessions of turns with the points that a memory should keep, and questions at checkpoints.

A memory sees turns and questions. Points, answers and evidence are gold, and go to judges only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct, field


class Turn(Struct, frozen=True):
    """What one side said. `captions` are of the images that were shown with it."""

    role: str
    content: str
    timestamp: str = ""
    captions: tuple[str, ...] = ()


class Point(Struct, frozen=True):
    """One thing to remember, or not to: `raw` is all that the data says of it, in its order."""

    memory_id: str
    content: str
    interference: bool = False
    update: bool = False
    original: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)


class Session(Struct, frozen=True):
    """One session, with the points that came up in it."""

    id: str
    turns: tuple[Turn, ...]
    points: tuple[Point, ...] = ()

    @property
    def new(self) -> list[Point]:
        """Points that are neither updates nor interference."""
        return [point for point in self.points if not (point.update or point.interference)]

    @property
    def updates(self) -> list[Point]:
        """Points that replace earlier ones."""
        return [point for point in self.points if point.update and not point.interference]

    @property
    def interference(self) -> list[Point]:
        """Points that no memory should keep."""
        return [point for point in self.points if point.interference]


class Question(Struct, frozen=True, kw_only=True):
    """One question. `evidence` are ids as the data has them, `contents` the texts of those that it knows."""

    text: str
    answer: str
    evidence: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    type: str = ""
    abbrev: str = ""
    difficulty: str = ""


class Checkpoint(Struct, frozen=True):
    """Questions that are asked once, after the last of the covered sessions; without any, at the end."""

    id: str
    covered: tuple[str, ...]
    questions: tuple[Question, ...]


class Sample(Struct, frozen=True, dict=True):
    """One sample of the data."""

    sample_id: str
    sample_uuid: str
    sessions: tuple[Session, ...]
    checkpoints: tuple[Checkpoint, ...]

    def due(self, session: str) -> Iterator[Checkpoint]:
        """The checkpoints whose last covered session this is, in the order of the data."""
        yield from self._due.get(session, ())

    @cached_property
    def _due(self) -> dict[str, list[Checkpoint]]:
        places = {each.id: at for at, each in enumerate(self.sessions)}
        found: dict[str, list[Checkpoint]] = {}
        for checkpoint in self.checkpoints:
            last = max((places[name] for name in checkpoint.covered), default=len(self.sessions) - 1)
            found.setdefault(self.sessions[last].id, []).append(checkpoint)
        return found


def cut(sample: Sample, max_sessions: int | None) -> tuple[Sample, int]:
    """A sample of its first sessions, and how many checkpoints are left out as they reach beyond them.

    One that names no session is asked at the end of the whole sample: a cut leaves it out too.
    """
    if max_sessions is None or max_sessions >= len(sample.sessions):
        return sample, 0
    sessions = sample.sessions[:max_sessions]
    inside = {session.id for session in sessions}
    kept = tuple(each for each in sample.checkpoints if each.covered and inside.issuperset(each.covered))
    left = len(sample.checkpoints) - len(kept)
    return Sample(sample.sample_id, sample.sample_uuid, sessions, kept), left
