"""Reads a JSON lines file of results row by row, whatever the order of its lines.

A run folder has the cases of a row together, one per subject. A result file may have all rows of the first subject,
then all rows of the second. A first pass over the file notes where each line begins (16 bytes a line); `rows` then
reads the lines of one row after the other.

    lines = ResultLines(path)
    for line in json_lines(path, BY_PROGRAMS):
        lines.add(row_id, subject, line)
    for row, results in lines.rows():
        for subject, line in results: ...
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from assay.core.errors import InputError, unreadable
from assay.files.read import BY_PROGRAMS, Line, line_at

_ABSENT = -1


class ResultLines:
    """Where a file has the result of each row with each subject."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        """The number of results."""
        self._rows: dict[str, int] = {}
        self._offsets: dict[str, array[int]] = {}
        self._numbers: dict[str, array[int]] = {}

    @property
    def subjects(self) -> list[str]:
        """The subjects in the order of their first lines."""
        return list(self._offsets)

    @property
    def row_count(self) -> int:
        """The number of different rows."""
        return len(self._rows)

    def add(self, row: str, subject: str, line: Line) -> int:
        """Note the place of a result. Returns 0, or the number of an earlier line with the same row and subject."""
        place = self._rows.setdefault(row, len(self._rows))
        offsets = self._offsets.setdefault(subject, array("q"))
        numbers = self._numbers.setdefault(subject, array("q"))
        missing = place + 1 - len(offsets)
        if missing > 0:
            offsets.extend([_ABSENT] * missing)
            numbers.extend([0] * missing)
        if offsets[place] != _ABSENT:
            return numbers[place]
        offsets[place], numbers[place] = line.offset, line.number
        self.count += 1
        return 0

    def rows(self) -> Iterator[tuple[str, list[tuple[str, Line]]]]:
        """Yield every row with its lines by subject, in the order in which the file first has them."""
        try:
            with self.path.open("rb", buffering=1 << 18) as file:
                for place, row in enumerate(self._rows):
                    lines = []
                    for subject, offsets in self._offsets.items():
                        offset = offsets[place] if place < len(offsets) else _ABSENT
                        if offset != _ABSENT:
                            raw = line_at(file, offset, BY_PROGRAMS)
                            lines.append((subject, Line(self._numbers[subject][place], offset, raw)))
                    yield row, lines
        except OSError as error:
            raise InputError(unreadable(self.path, error)) from None
