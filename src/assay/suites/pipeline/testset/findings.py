"""Collects what is wrong in files, and stays small however much that is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.suites.pipeline.testset.stream import Record, key_line
from assay.suites.pipeline.testset.validation import Fault, json_path

_MOST = {"error": 1000, "warning": 200, "advice": 50}
_OVER = {"error": "errors", "warning": "warnings", "advice": "pieces of advice"}


class Findings:
    """The problems of files: the first ones of each level and file, and how many more there are."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def file(self, path: Path) -> FileFindings:
        """The findings of one file; they end up here when it is done."""
        return FileFindings(path, self)

    def take(self, problems: list[Problem]) -> None:
        """A file is done."""
        self._problems += problems

    def told(self, *levels: str) -> list[Problem]:
        """The problems of these levels, file by file in the order of lines."""
        return [problem for problem in self._problems if problem.level in levels]

    def refuse(self) -> None:
        """Raise all errors at once, if there are any."""
        if errors := self.told("error"):
            raise InputError(errors)


class FileFindings:
    """The problems of one file, sorted by line at the end."""

    def __init__(self, path: Path, whole: Findings) -> None:
        self.path = path
        self._whole = whole
        self._counts: Counter[str] = Counter()
        self._found: list[tuple[int, Problem]] = []

    def note(self, problem: Problem) -> None:
        """One problem, whose place ends with its line."""
        self._counts[problem.level] += 1
        if self._counts[problem.level] <= _MOST[problem.level]:
            place = problem.where.removeprefix(str(self.path)).split(" ")[0]
            number = place.removeprefix(":")
            self._found.append((int(number) if number.isdigit() else 0, problem))

    def fault(self, record: Record, fault: Fault) -> None:
        """A fault of a record; in one that is written over many lines at the line of its key."""
        spread = fault.path and b"\n" in record.raw.strip()
        line = key_line(record, fault.path[0]) if spread else record.line
        self.note(Problem(self.where(line, fault.path), fault.message, fault.level))

    def where(self, line: int, path: tuple[str | int, ...] = ()) -> str:
        """`file:line $.path`."""
        return f"{self.path}:{line} {json_path(path)}" if path else f"{self.path}:{line}"

    @property
    def errors(self) -> int:
        """How many errors this file has so far."""
        return self._counts["error"]

    def done(self) -> None:
        """Hand all over, with a line for what was too much to tell."""
        problems = [problem for _, problem in sorted(self._found, key=lambda found: found[0])]
        for level, most in _MOST.items():
            if (more := self._counts[level] - most) > 0:
                problems.append(Problem(str(self.path), f"and {more:,} more {_OVER[level]}", level))
        self._whole.take(problems)
