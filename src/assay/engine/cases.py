"""The cases of a run: every row with every subject, in data order, and their results.

A case's index is `row number * number of subjects + position of the subject`. A suite can leave out a pair of row
and subject (`Suite.has`). Its index stays unused, so that the index of another case never depends on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from assay.core.error_counts import ErrorCount, ErrorCounts
from assay.core.errors import StopRun
from assay.core.shard import Shard
from assay.core.suite import CaseResult, Row, Rows, Suite
from assay.core.types import SUBJECT_KINDS, Case, End, Score
from assay.journal.reader import RunReader

# Cases that are built at once: half as many as are open, within these bounds. A case of a memory suite may have
# megabytes.
_MAX_GROUP, _MIN_GROUP = 32, 8


class Cases:
    """The cases of a suite. A case is built shortly before the loop starts it, so that few cases are in memory.

    With `shard`, they are the cases of that shard, with the indexes that they have in the whole run.
    """

    def __init__(self, suite: Suite[Any, Any], rows: Rows[Any], shard: Shard | None = None) -> None:
        self._suite = suite
        self._rows = rows
        self._shard = shard
        self._subjects = list(suite.subjects())
        self._total_of_all_shards = suite.total(rows)
        self.slots = rows.count * len(self._subjects)
        self.total = self._total_of_all_shards if shard is None else self._count(shard)

    def _count(self, shard: Shard) -> int:
        if self._total_of_all_shards == self.slots:
            return shard.rows_of(self._rows.count) * len(self._subjects)
        rows = self._rows.iterate(shard.skip_others())
        return sum(self._suite.has(row, subject) for row in rows for subject in self._subjects)

    @property
    def part(self) -> str:
        """`shard 3 of 16: 625 of 10,000 cases`; empty for the cases of the whole run."""
        if self._shard is None:
            return ""
        shard = f"shard {self._shard.number} of {self._shard.count}"
        return f"{shard}: {self.total:,} of {self._total_of_all_shards:,} cases"

    def load(self, skip: Callable[[int], Any] | None, open_cases: int) -> Iterator[Case]:
        """Yield the cases row by row: first all subjects of the first row. `skip` says which indexes are left out.

        They are built in groups, as `open_cases` run at once. One by one, between calls, building takes twice the time.
        """
        cases = self._build(skip)
        size = min(_MAX_GROUP, max(_MIN_GROUP, open_cases // 2))
        while group := list(islice(cases, size)):
            yield from group

    def _build(self, skip: Callable[[int], Any] | None) -> Iterator[Case]:
        suite, subjects, count = self._suite, self._subjects, len(self._subjects)
        has_all = self._total_of_all_shards == self.slots
        skip_row = skip  # with one subject, a row's number is its case's index
        if skip is not None and count > 1:

            def skip_row(number: int) -> bool:
                return all(skip(index) for index in range(number * count, (number + 1) * count))

        if self._shard is not None:
            skip_row = self._shard.skip_others(skip_row)
        for row in self._rows.iterate(skip_row):
            for place, subject in enumerate(subjects):
                index = row.number * count + place
                if skip is not None and count > 1 and skip(index):
                    continue
                if not has_all and not suite.has(row, subject):
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
        """Return the results that the journal has for these cases."""
        return CaseResults(self._suite, self._rows, reader, list(scorers), self._shard)


class CaseResults:
    """The results of a run in data order. Raises StopRun if the data changed since a case was run."""

    def __init__(
        self,
        suite: Suite[Any, Any],
        rows: Rows[Any],
        reader: RunReader,
        scorers: list[str],
        shard: Shard | None = None,
    ) -> None:
        self._suite = suite
        self._rows = rows
        self._skip = shard.skip_others() if shard is not None else None
        self._reader = reader
        self._scorers = scorers
        self._subjects = list(suite.subjects())
        self._has_all = suite.total(rows) == rows.count * len(self._subjects)
        self._errors: dict[tuple[str, str], ErrorCounts] = defaultdict(ErrorCounts)
        self._counted = bytearray(rows.count * len(self._subjects))
        """1 at the index of a case whose errors are counted. A suite may read the results twice."""

    def __iter__(self) -> Iterator[CaseResult[Any]]:
        for row in self._rows.iterate(self._skip):
            for place, subject in enumerate(self._subjects):
                if self._has_all or self._suite.has(row, subject):
                    yield self._result(row, subject, place)

    def of(self, subject: str) -> Iterator[CaseResult[Any]]:
        """Yield the results of one subject, row by row."""
        place = self._subjects.index(subject)
        for row in self._rows.iterate(self._skip):
            if self._has_all or self._suite.has(row, subject):
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
        if not self._counted[index]:
            self._counted[index] = 1
            self._count_error(end, scores)
        return CaseResult(index, row, subject, end, records, scores)

    def errors(self, set_: str = "", subject: str = "") -> list[ErrorCount]:
        """Return the errors of the cases read so far, of one set or subject if it is named.

        An error is the failure of a case, or the reason of the first invalid score of a case that ended well.
        """
        return ErrorCounts(
            error
            for (of_set, of_subject), errors in self._errors.items()
            if set_ in ("", of_set) and subject in ("", of_subject)
            for error in errors.all()
        ).all()

    def _count_error(self, end: End, scores: Sequence[Score]) -> None:
        if end.failure is not None:
            if end.failure.kind in SUBJECT_KINDS:
                self._errors[end.set, end.subject].add(end.failure.message, end.failure.traceback)
            return
        for score in scores:
            if score.status == "invalid" and not score.interim:
                traceback = score.data.get("traceback", "") if isinstance(score.data, dict) else ""
                self._errors[end.set, end.subject].add(score.reason, traceback)
                return


def check_key(key: str, end: End) -> None:
    """Raise StopRun if a case in the journal has another key than the row at its index: the data changed."""
    if key != end.case:
        label = end.label or end.case
        raise StopRun(
            f"the data changed while the run went on: {end.set} {label} is another document now. "
            "Start another run with --fresh"
        )
