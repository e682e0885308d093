"""Reads samples: everything is checked first, then one is given at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, Problem
from assay.core.nodes import told
from assay.suites.memory_eval.explaining import explain
from assay.suites.memory_eval.sample import Sample
from assay.suites.memory_eval.shape import sample_of
from assay.suites.memory_eval.sources import Parts, parts

HELD_BYTES = 1 << 24
"""Data up to this size is kept in memory; larger data is read anew for each pass."""


class Samples:
    """The samples of a file or a folder, in their order, as often as one likes.

    `ids` are those of the samples. `warnings` tell what is odd and stops nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        problems: list[Problem] = []
        self._held: list[Sample] | None = [] if _size(path) <= HELD_BYTES else None
        self.ids: list[str] = []
        for found in read(path, problems):
            self.ids.append(found.sample.sample_id)
            if self._held is not None:
                self._held.append(found.sample)
        self._refuse(problems)
        self.warnings = list(map(str, problems))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Sample]:
        return self._again() if self._held is None else iter(self._held)

    def _again(self) -> Iterator[Sample]:
        problems: list[Problem] = []
        for found in read(self._path, problems):
            yield found.sample
        self._refuse(problems)

    def _refuse(self, problems: list[Problem]) -> None:
        """What is an error now may have been none before: files can change between two readings."""
        if errors := [problem for problem in problems if problem.level == "error"]:
            raise InputError(told(self._path, errors))


def _size(path: Path) -> int:
    files = path.rglob("*.json*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def load(path: Path) -> Samples:
    """The samples; raises InputError with every problem that makes a run impossible."""
    return Samples(path)


class Found(NamedTuple):
    """A sample, and where its parts stand."""

    parts: Parts
    sample: Sample


def read(path: Path, problems: list[Problem]) -> Iterator[Found]:
    """One sample at a time; what is wrong is noted once. A sample that cannot be built is left out."""
    places: dict[str, str] = {}
    for each in parts(path, problems):
        sample = sample_of(each)
        if sample is None or not is_sound(sample, each):
            _explain(each, problems)
        if sample is None:
            continue
        at = each.sample.at
        if (before := places.setdefault(sample.sample_id, at)) != at:
            each.sample.note(f"the id {sample.sample_id!r} stands at {before} already; each needs its own")
        yield Found(each, sample)


def is_sound(sample: Sample, where: Parts) -> bool:
    """Whether ids are told apart, and every session that is named is there."""
    ids = {session.id for session in sample.sessions}
    checkpoints = {checkpoint.id for checkpoint in sample.checkpoints}
    named = {str(block["session_id"]) for block in where.points.value}
    named.update(name for checkpoint in sample.checkpoints for name in checkpoint.covered)
    return (
        len(ids) == len(sample.sessions)
        and len(checkpoints) == len(sample.checkpoints)
        and named <= ids
        and all(checkpoint.covered for checkpoint in sample.checkpoints)
    )


def _explain(each: Parts, problems: list[Problem]) -> None:
    """A value that two rules look at is told once."""
    before = len(problems)
    explain(each)
    problems[before:] = dict.fromkeys(problems[before:])
