"""Rows x subjects: which cases a run has, in which order, and what came of each.

A case is one row with one subject. Its index is `row number x subjects + place of the subject`, whether or not every
pair is there, so that a case keeps its place when others are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from assay.core.errors import StopRun
from assay.core.suite import CaseResult, Row, Rows, Suite
from assay.core.types import Case, End
from assay.journal.reader import RunReader


class CaseSource(Protocol):
    """What the loop needs to know of the cases."""

    @property
    def total(self) -> int:
        """How many cases there are."""
        ...

    @property
    def slots(self) -> int:
        """One more than the largest index there can be."""
        ...

    def load(self, skip: Callable[[int], Any]) -> Iterator[Case]:
        """The cases in data order, without those whose index is to be skipped."""
        ...


class Cases:
    """The cases of a suite, built from its rows when they are needed."""

    def __init__(self, suite: Suite[Any, Any], rows: Rows[Any]) -> None:
        self._suite = suite
        self._rows = rows
        self._subjects = list(suite.subjects())
        self.total = suite.total(rows)
        self.slots = rows.count * len(self._subjects)

    def load(self, skip: Callable[[int], Any]) -> Iterator[Case]:
        """Row after row, each with every subject that has it."""
        suite, subjects, count = self._suite, self._subjects, len(self._subjects)
        if count == 1:
            skip_row = skip  # then a row's number is its case's index
        else:

            def skip_row(number: int) -> bool:
                return all(skip(index) for index in range(number * count, (number + 1) * count))

        for row in self._rows.iterate(skip_row):
            for place, subject in enumerate(subjects):
                index = row.number * count + place
                if count > 1 and skip(index):
                    continue
                if not suite.has(row, subject):
                    continue
                content = suite.case(row, subject)
                yield Case(
                    index,
                    row.key,
                    row.set,
                    subject,
                    content.label,
                    content.inputs,
                    content.gold,
                    content.failure,
                    content.tags,
                )

    def results(self, reader: RunReader, scorers: Sequence[str]) -> CaseResults:
        """What the journal has of these cases."""
        return CaseResults(self._suite, self._rows, reader, list(scorers))


class CaseResults:
    """The results of a run in data order. Raises StopRun where the data is not what was asked."""

    def __init__(
        self, suite: Suite[Any, Any], rows: Rows[Any], reader: RunReader, scorers: list[str]
    ) -> None:
        self._suite = suite
        self._rows = rows
        self._reader = reader
        self._scorers = scorers
        self._subjects = list(suite.subjects())

    def __iter__(self) -> Iterator[CaseResult[Any]]:
        for row in self._rows.iterate():
            for place, subject in enumerate(self._subjects):
                if self._suite.has(row, subject):
                    yield self._result(row, subject, place)

    def of(self, subject: str) -> Iterator[CaseResult[Any]]:
        """All rows of one subject."""
        place = self._subjects.index(subject)
        for row in self._rows.iterate():
            if self._suite.has(row, subject):
                yield self._result(row, subject, place)

    def _result(self, row: Row[Any], subject: str, place: int) -> CaseResult[Any]:
        index = row.number * len(self._subjects) + place
        ended = self._reader.ended(index)
        if ended is None:
            return CaseResult(index, row, subject, None, [], [])
        end, records = ended
        check_key(row.key, end)
        scores = []
        for scorer in self._scorers:
            scores += self._reader.scores(index, scorer)
        return CaseResult(index, row, subject, end, records, scores)


def check_key(key: str, end: End) -> None:
    """Stop where the case at this index is not the one that was asked: the data changed under the run."""
    if key != end.case:
        label = end.label or end.case
        raise StopRun(
            f"the data changed while the run went on: {end.set} {label} is another document now; "
            "start another run with --fresh"
        )
