"""Checks a valid sample for mistakes that a run accepts, for `assay check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assay.core.errors import Problem
from assay.files.schema import KeyPath
from assay.suites.memory.eval.sample import Checkpoint, Sample
from assay.suites.memory.eval.sample_build import add_duplicates
from assay.suites.memory.eval.sample_places import PlacedValue, SamplePlace


def inspect_sample(place: SamplePlace, sample: Sample, problems: list[Problem]) -> None:
    """Add every mistake of a sample to the list."""
    _Inspection(place, sample, problems).run()


class _Inspection:
    """Checks one valid sample for mistakes that a run accepts."""

    def __init__(self, place: SamplePlace, sample: Sample, problems: list[Problem]) -> None:
        self._place = place
        self._sample = sample
        self._problems = problems
        self._sessions = [session.id for session in sample.sessions]
        # Ids that evidence may name, points and images, with the position of their session.
        self._positions: dict[str, int] = {}
        self._interference: set[str] = set()
        for number, raw in enumerate(place.sample.value["sessions"]):
            for turn in raw["dialogue"]:
                for image in turn.get("attachments") or ():
                    if image.get("image_id") is not None:
                        self._positions[str(image["image_id"])] = number
        for number, session in enumerate(sample.sessions):
            for point in session.points:
                self._positions[point.memory_id] = number
            self._interference.update(point.memory_id for point in session.interference)

    def run(self) -> None:
        for number, session in enumerate(self._sample.sessions):
            if not session.turns:
                message = "is empty: the session has no turns"
                self._warn(self._place.sample, ("sessions", number, "dialogue"), message)
        point_places = list(self._point_places())
        names = [(str(raw["memory_id"]), place, (*path, "memory_id")) for _, raw, place, path in point_places]
        add_duplicates(names, self._problems)
        self._check_updates(point_places)
        for number, checkpoint in enumerate(self._sample.checkpoints):
            self._check_checkpoint(checkpoint, number)

    def _warn(self, place: PlacedValue, path: KeyPath, message: str) -> None:
        self._problems.append(place.problem(path, message, "warning"))

    def _point_places(self) -> Iterator[tuple[str, dict[str, Any], PlacedValue, KeyPath]]:
        """Yield session id, raw point, place and key path of every point: first those in sessions, then in blocks."""
        place = self._place.sample
        for number, (session, raw) in enumerate(zip(self._sample.sessions, place.value["sessions"], strict=True)):
            for row, point in enumerate(raw.get("memory_points") or ()):
                yield session.id, point, place, ("sessions", number, "memory_points", row)
        for number, block in enumerate(self._place.points.value):
            for row, point in enumerate(block["memory_points"]):
                yield str(block["session_id"]), point, self._place.points, (number, "memory_points", row)

    def _check_updates(self, points: Sequence[tuple[str, dict[str, Any], PlacedValue, KeyPath]]) -> None:
        """Warn about updates whose `original_memories` are not texts of earlier points. The judge gets these texts."""
        by_session: dict[str, list[tuple[PlacedValue, KeyPath]]] = {}
        for session_id, _, place, path in points:
            by_session.setdefault(session_id, []).append((place, (*path, "original_memories")))
        earlier: set[str] = set()
        for session in self._sample.sessions:
            for point, (place, path) in zip(session.points, by_session.get(session.id, ()), strict=True):
                if point.update and not point.interference:
                    if not point.original:
                        self._warn(place, path, "is empty, but an update should have the texts that it replaces")
                    for original in point.original:
                        if original.strip() not in earlier:
                            self._warn(place, path, f"no earlier point has the text {original!r}")
                earlier.add(point.content.strip())

    def _check_checkpoint(self, checkpoint: Checkpoint, number: int) -> None:
        place = self._place.checkpoints
        covered = [
            index for index, name in enumerate(self._sessions) if name in checkpoint.covered or not checkpoint.covered
        ]
        last = max(covered, default=0)
        if not checkpoint.questions:
            self._warn(place, (number, "questions"), "is empty: the checkpoint asks nothing")
        for row, question in enumerate(checkpoint.questions):
            path = (number, "questions", row)
            if not question.answer.strip():
                message = "is empty: answers cannot be compared with it"
                self._problems.append(place.problem((*path, "answer"), message))
            raw_evidence = place.value[number]["questions"][row].get("evidence") or ()
            for item, (name, raw) in enumerate(zip(question.evidence, raw_evidence, strict=True)):
                key = "memory_id" if raw.get("memory_id") is not None else "image_id"
                self._check_evidence(name, (*path, "evidence", item, key), last)

    def _check_evidence(self, name: str, path: KeyPath, last: int) -> None:
        place, position = self._place.checkpoints, self._positions.get(name)
        if position is None:
            message = f"the sample has no memory point or image {name!r}"
            self._problems.append(place.problem(path, message))
        elif position > last:
            message = (
                f"{name!r} belongs to session {self._sessions[position]}, but the checkpoint runs before it, "
                f"after {self._sessions[last]}"
            )
            self._problems.append(place.problem(path, message))
        if name in self._interference:
            self._warn(place, path, f"{name!r} is interference, which a memory should not store")
