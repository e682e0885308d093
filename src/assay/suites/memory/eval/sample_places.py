"""Where the sessions, points and checkpoints of samples stand in their files.

The older layout has points and checkpoints in two further files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import Problem
from assay.files.json_objects import FileObject, read_objects
from assay.files.schema import KeyPath, json_path
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, MAIN, POINTS

_ID_KEYS = ("sample_id", "uuid")


class PlacedValue(NamedTuple):
    """A value of a sample: the raw value, the object that contains it, and its key path in that object."""

    source: FileObject
    path: KeyPath
    value: Any

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Return a problem with the value at `path` below this value."""
        return self.source.problem((*self.path, *path), message, level)

    def name(self, path: KeyPath) -> str:
        """Return the JSON path of the value at `path` below this value, without the file name."""
        return json_path((*self.path, *path), self.source.root)


class SamplePlace(NamedTuple):
    """A sample with its points and its checkpoints. They may be in different files."""

    sample: PlacedValue
    points: PlacedValue
    checkpoints: PlacedValue


def sample_places(file: Path, sources: Iterable[FileObject], problems: list[Problem]) -> Iterator[SamplePlace]:
    """Yield the place of every sample. `sources` are the objects of `file`, which has the sessions."""
    if file.name == MAIN:
        yield from _older_places(file, sources, problems)
        return
    for source in sources:
        yield SamplePlace(
            PlacedValue(source, (), source.value),
            PlacedValue(source, ("memory_points",), _value_or_list(source.value, "memory_points")),
            PlacedValue(source, ("qa_checkpoints",), _value_or_list(source.value, "qa_checkpoints")),
        )


def _value_or_list(value: dict[str, Any], key: str) -> Any:
    """Return the value of a key; an empty list if it is absent or null."""
    item = value.get(key)
    return [] if item is None else item


def _older_places(file: Path, sources: Iterable[FileObject], problems: list[Problem]) -> Iterator[SamplePlace]:
    points = _SampleFile(file.with_name(POINTS), problems)
    checkpoints = _SampleFile(file.with_name(CHECKPOINTS), problems)
    for source in sources:
        points_row, checkpoints_row = points.row_of(source), checkpoints.row_of(source)
        if points_row and checkpoints_row:
            yield SamplePlace(
                PlacedValue(source, (), source.value),
                _first_key(points_row, "memory_sessions", "memory_points"),
                _first_key(checkpoints_row, "checkpoints", "qa_checkpoints"),
            )
    points.warn_of_unused()
    checkpoints.warn_of_unused()


def _first_key(source: FileObject, *keys: str) -> PlacedValue:
    """Return the value of the first key that is present. If none is, the first key is reported as missing."""
    for key in keys:
        if source.value.get(key) is not None:
            return PlacedValue(source, (key,), source.value[key])
    return PlacedValue(source, (keys[0],), msgspec.UNSET)


class _SampleFile:
    """The rows of a file of the older layout, by `sample_id` and `uuid`."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._path = path
        self._problems = problems
        self._rows: dict[str, FileObject] = {}
        self._used: set[int] = set()
        for source in read_objects(path, problems, hint=f"it must be in the same folder as {MAIN}"):
            names = [str(source.value[key]) for key in _ID_KEYS if source.value.get(key) is not None]
            if not names:
                message = "is missing: it tells the sample of this row"
                problems.append(source.problem(("sample_id",), message))
            for name in dict.fromkeys(names):
                first = self._rows.setdefault(name, source)
                if first is not source:
                    message = f"duplicate row for the sample {name!r}, first on line {first.line}"
                    problems.append(source.problem((), message))

    def row_of(self, sample: FileObject) -> FileObject | None:
        """Return the row of a sample. Adds a problem and returns None if there is no such row."""
        names = [str(sample.value[key]) for key in _ID_KEYS if sample.value.get(key) is not None]
        for name in names:
            if name in self._rows:
                row = self._rows[name]
                self._used.add(row.line)
                return row
        message = f"{self._path} has no row for this sample ({' or '.join(names) or 'no id'})"
        self._problems.append(sample.problem((), message))
        return None

    def warn_of_unused(self) -> None:
        """Add a warning for each row without a sample. A run ignores these rows."""
        unused = {row.line: name for name, row in self._rows.items() if row.line not in self._used}
        for line, name in unused.items():
            message = f"{MAIN} has no sample {name!r}"
            self._problems.append(Problem(f"{self._path}:{line}", message, "warning"))
