"""The rows of a run that people read, as columns: filtered, sorted and paged without reading the journal.

    rows = RowTable(folder)
    slowest = rows.sort(rows.select(failed=True), "seconds", descending=True)
    for row in rows.read(slowest[:50]):
        row.name, row.scores, row.records

A row is a case, or a part of a case in suites whose parts are rows: a test of a pipeline, a question about a
conversation. run.json says which (`score_parts`). The columns come from the index; only `read` reads lines of the
journal, and only those of the rows that it returns.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.core.errors import UsageError, unknown
from assay.core.types import End, Record, Score
from assay.journal.columns import (
    INVALID,
    SCORED,
    UNKNOWN_TOKENS,
    RunColumns,
    ScoreArrays,
    ScoreName,
    as_numpy,
)
from assay.journal.index import INFRA_ERROR, OK, SUBJECT_ERROR
from assay.journal.integrity import refuse_damage
from assay.journal.lines import LineFile
from assay.journal.reader import RunReader
from assay.journal.run_files import read_info, read_summary
from assay.store.cases import counted_scorers

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_SCORED = 255
"""In the state column of a metric: the row has no score of it."""
ROW_STATUSES: dict[str, int] = {
    "ok": OK,
    "failed": OK,
    "subject_error": SUBJECT_ERROR,
    "infra_error": INFRA_ERROR,
}
"""The status of a row, with the code of its case. A failed row has an answer, and a score that is 0 or invalid."""

# Scores that are put into columns at once.
_BLOCK = 1 << 17
_COLUMNS = ("index", "seconds", "input", "output", "calls", "cost")
_records = msgspec.json.Decoder(Record | End)
_scores = msgspec.json.Decoder(Score | End)


class TableRow(NamedTuple):
    """One row with its texts. `part` is empty if the row is a whole case."""

    end: End
    part: str
    label: str
    tags: tuple[str, ...]
    records: list[Record]
    scores: list[Score]

    @property
    def name(self) -> str:
        """The row as reports name it: `set/key`, then the part."""
        return "/".join(filter(None, (self.end.set, self.end.case, self.part)))


class MetricColumn(NamedTuple):
    """The values of one metric, one element per row. `value` is NaN where `state` is not SCORED."""

    value: NDArray[Any]
    state: NDArray[Any]


class ValueRange(NamedTuple):
    """Numbers of a column: at least `least`, at most `most`, and less than `below`. None is no bound."""

    column: str
    least: float | None = None
    most: float | None = None
    below: float | None = None


class CaseParts(NamedTuple):
    """Some rows: the number of each one's case, and the digest of its part. `part` is ignored where a case is a row."""

    case: NDArray[Any]
    part: NDArray[Any]


class RowTable:
    """The rows of a run in the order of the data. Damaged runs are refused with DamagedRun."""

    def __init__(self, folder: Path, columns: RunColumns | None = None) -> None:
        """With `columns`, the table is made of columns that are open already."""
        import numpy as np

        info, summary = read_info(folder), read_summary(folder)
        scorers = counted_scorers(folder, summary)
        columns = columns or RunColumns.open(folder, info.score_parts)
        self.columns = columns
        refuse_damage(folder, summary, columns)
        self._has_parts = info.score_parts == "rows"
        self._scorers = scorers
        self._reader = RunReader(folder, columns)
        self._record_lines, self._score_lines = (
            LineFile(folder / "records.jsonl"),
            LineFile(folder / "scores.jsonl"),
        )
        metrics = summary.report.metrics() if summary and summary.report else []
        self._neutral = {metric.name for _, metric in metrics if metric.higher_is_better is False}
        codes = np.frombuffer(bytes(columns.ask.codes), dtype=np.uint8)
        arrays = columns.scores(scorers, digests=self._has_parts)
        if self._has_parts:
            row_of_score = self._rows_of_parts(codes, arrays.case, arrays.part)
        else:
            # 32 bits: a table of a million rows stays open in `assay view`, which has little memory.
            self.case = np.flatnonzero(codes).astype(np.int32)
            row_of_score = (np.cumsum(codes > 0, dtype=np.int32) - 1)[arrays.case]
        self._status = codes[self.case]
        # Only parts need these: the scores of a whole case are found by its end.
        none = np.empty(0, dtype=np.int64)
        self._score_positions = arrays.position if self._has_parts else none
        self._row_of_score = row_of_score if self._has_parts else none
        self._scores_by_row = _Groups(self._row_of_score)
        self._records_by_part = _Groups(_part_keys(as_numpy(columns.record_case), as_numpy(columns.record_part)))
        self.interim = np.zeros(len(self.case), dtype=bool)
        """Rows that count in no metric, because the same question was asked again later."""
        self.interim[row_of_score[arrays.interim]] = True
        self._flaky: NDArray[Any] | None = None
        # Most runs have neither repeats nor votes. They need no column for it.
        if arrays.repeated.any():
            self._flaky = np.zeros(len(self.case), dtype=bool)
            self._flaky[row_of_score[arrays.flaky]] = True
        self.metrics = self._metric_columns(arrays, row_of_score)

    def _metric_columns(self, arrays: ScoreArrays, row_of_score: NDArray[Any]) -> dict[ScoreName, MetricColumn]:
        """Return the columns of all metrics that have a score."""
        import numpy as np

        names = self.columns.score_names.names
        values: dict[int, NDArray[Any]] = {}
        states: dict[int, NDArray[Any]] = {}
        # Block by block: a million scores at once would take more memory than the table itself.
        for begin in range(0, len(arrays.case), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            name, row = arrays.name[block], row_of_score[block]
            value, state = arrays.value[block], arrays.state[block]
            for number in np.unique(name).tolist():
                if number not in values:
                    values[number] = np.full(len(self.case), np.nan)
                    states[number] = np.full(len(self.case), NOT_SCORED, dtype=np.uint8)
                chosen = name == number
                values[number][row[chosen]] = value[chosen]
                states[number][row[chosen]] = state[chosen]
            self.columns.release_pages()  # mapped columns would otherwise be in memory as a whole at the end
        return {names[number]: MetricColumn(values[number], states[number]) for number in sorted(values)}

    def _rows_of_parts(self, codes: NDArray[Any], cases: NDArray[Any], parts: NDArray[Any]) -> NDArray[Any]:
        """Set `case` to one element per row, and return the row of each score.

        Rows are in the order of their cases, and within a case in the order of their first score. A case without scores
        is one row.
        """
        import numpy as np

        order = np.lexsort((np.arange(len(cases)), cases))
        keys = _part_keys(cases, parts)
        _, first, inverse = np.unique(keys[order], return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        scored_cases = cases[order][np.sort(first)]
        without = np.setdiff1d(np.flatnonzero(codes), scored_cases)
        self.case = np.concatenate([scored_cases, without])
        by_case = np.argsort(self.case, kind="stable")
        new_place = np.empty(len(by_case), dtype=np.int64)
        new_place[by_case] = np.arange(len(by_case))
        self.case = self.case[by_case]
        row_of_score = np.empty(len(cases), dtype=np.int64)
        row_of_score[order] = new_place[rank[inverse]]
        return row_of_score

    def __len__(self) -> int:
        return len(self.case)

    @property
    def subjects(self) -> list[str]:
        """The subjects of the run, in the order in which they first ended."""
        return self.columns.subjects.names

    @property
    def sets(self) -> list[str]:
        """The tasks or data sets of the run, in the order in which they first ended."""
        return self.columns.sets.names

    @property
    def tags(self) -> list[str]:
        """All tags of rows, sorted."""
        return sorted({tag for tags in self.columns.tags.names for tag in tags})

    def select(
        self,
        *,
        failed: bool = False,
        status: str = "",
        tag: str = "",
        subject: str = "",
        set_name: str = "",
        slower_than: float | None = None,
        flaky: bool = False,
        values: ValueRange | None = None,
    ) -> NDArray[Any]:
        """Return the positions of the rows that meet all conditions, in the order of the data.

        `status` is one of `ROW_STATUSES`. `flaky` rows have repeats or votes that do not agree.
        """
        import numpy as np

        columns, chosen = self.columns, np.ones(len(self), dtype=bool)
        if failed:
            chosen &= self.failed()
        if status:
            if status not in ROW_STATUSES:
                raise UsageError(unknown("status", status, list(ROW_STATUSES)))
            chosen &= self._status == ROW_STATUSES[status]
            if ROW_STATUSES[status] == OK:
                chosen &= self.failed() == (status == "failed")
        if tag:
            chosen &= self._has_tag(tag)
        if subject:
            chosen &= self._is_named(columns.subjects.numbers, columns.subjects.names, subject, "subject")
        if set_name:
            chosen &= self._is_named(columns.sets.numbers, columns.sets.names, set_name, "set")
        if slower_than is not None:
            chosen &= as_numpy(columns.seconds)[self.case] > slower_than
        if flaky:
            chosen &= self.flaky()
        if values is not None:
            chosen &= self._is_between(values)
        # 32 bits, like `case`.
        return np.flatnonzero(chosen).astype(np.int32)

    @property
    def has_repeats(self) -> bool:
        """Whether any score stands for several repeats of a case, or several votes of a judge."""
        return self._flaky is not None

    @property
    def has_costs(self) -> bool:
        """Whether an endpoint reported a price of any call."""
        return len(self.columns.call_cost) > 0

    @property
    def has_parts(self) -> bool:
        """Whether a row is a part of a case: a test of a pipeline, or a question about a conversation."""
        return self._has_parts

    def flaky(self) -> NDArray[Any]:
        """Return for each row whether its repeats or votes disagree. Raises UsageError if the run has none of them."""
        if self._flaky is None:
            raise UsageError("this run has neither repeats nor votes, so no row can be flaky")
        return self._flaky

    def _is_between(self, wanted: ValueRange) -> NDArray[Any]:
        import numpy as np

        values = self.column(wanted.column)
        if wanted.column == "seconds":
            # The index has 32 bits of them. Compared with 64 bits, 0.1 s would not be 0.1 s.
            values = values.astype(np.float32)
        chosen: NDArray[Any] = ~np.isnan(values)
        with np.errstate(over="ignore"):  # a bound of more than 32 bits is infinite
            if wanted.least is not None:
                chosen &= values >= wanted.least
            if wanted.most is not None:
                chosen &= values <= wanted.most
            if wanted.below is not None:
                chosen &= values < wanted.below
        return chosen

    def is_one_of(self, parts: CaseParts) -> NDArray[Any]:
        """Return for each row whether it is one of these."""
        import numpy as np

        chosen: NDArray[Any] = np.zeros(len(self), dtype=bool)
        if not self._has_parts:
            # By the numbers of cases: `isin` would sort a million of them.
            cases = np.zeros(len(self.columns.ask.codes), dtype=bool)
            cases[parts.case[parts.case < len(cases)]] = True
            return cases[self.case]
        own = self._score_positions
        columns = self.columns
        keys = _part_keys(as_numpy(columns.score_case)[own], columns.score_part.take(own))
        chosen[self._row_of_score[np.isin(keys, _part_keys(parts.case, parts.part))]] = True
        return chosen

    def failed(self) -> NDArray[Any]:
        """Return for each row whether it has no answer, or a score that is 0 or invalid. Interim scores are ignored."""
        failed: NDArray[Any] = self._status != OK
        for name, column in self.metrics.items():
            wrong = column.state == INVALID
            if name.metric not in self._neutral:
                wrong |= (column.state == SCORED) & (column.value == 0)
            failed = failed | (wrong & ~self.interim)
        return failed

    def _is_named(self, numbers: Any, names: list[str], wanted: str, what: str) -> NDArray[Any]:
        if wanted not in names:
            raise UsageError(unknown(what, wanted, names))
        chosen: NDArray[Any] = as_numpy(numbers)[self.case] == names.index(wanted)
        return chosen

    def _has_tag(self, tag: str) -> NDArray[Any]:
        import numpy as np

        columns = self.columns
        numbers = [number for number, tags in enumerate(columns.tags.names) if tag in tags]
        if not numbers:
            raise UsageError(unknown("tag", tag, self.tags))
        chosen = np.isin(as_numpy(columns.tags.numbers)[self.case], numbers)
        if self._has_parts and len(self._score_positions):
            of_part = np.isin(as_numpy(columns.score_tags)[self._score_positions], numbers)
            chosen[self._row_of_score[of_part]] = True
        return chosen

    def sort(self, positions: NDArray[Any], by: str, *, descending: bool = False) -> NDArray[Any]:
        """Return positions in the order of a column: a metric, or one of `_COLUMNS`.

        Rows without a value come last. A metric is named as `metric` or `metric,filter`.
        """
        import numpy as np

        values = self.column(by)[positions]
        if descending:
            np.negative(values, out=values)
        # NaN comes last in both directions, and a stable sort keeps the order of the data there.
        ordered: NDArray[Any] = positions[np.argsort(values, kind="stable")]
        return ordered

    def column(self, name: str) -> NDArray[Any]:
        """Return a column as numbers, NaN where a value is missing. Raises UsageError for an unknown name."""
        import numpy as np

        columns = self.columns
        if name == "index":
            return self.case
        if name == "cost":
            costs = columns.case_costs()
            if costs is None:
                return np.full(len(self), np.nan)
            priced: NDArray[Any] = costs[self.case]
            return priced
        if name in _COLUMNS:
            sources: dict[str, array[Any]] = {
                "seconds": columns.seconds,
                "input": columns.input,
                "output": columns.output,
                "calls": columns.calls_made,
            }
            values = as_numpy(sources[name])[self.case].astype(np.float64)
            if name in ("input", "output"):
                values[values == UNKNOWN_TOKENS] = np.nan
            columns.release_pages()
            return values
        for metric, column in self.metrics.items():
            if name in (metric.metric, f"{metric.metric},{metric.filter}"):
                return column.value
        names = [f"{each.metric},{each.filter}".rstrip(",") for each in self.metrics]
        raise UsageError(unknown("column", name, [*_COLUMNS, *names]))

    def case_values(self, name: str) -> NDArray[Any]:
        """Return a column with one element for each case. For values of whole cases, such as their time."""
        import numpy as np

        values = self.column(name)
        if not self._has_parts or not len(values):
            return values
        # Rows are in the order of their cases.
        first = np.concatenate([[True], self.case[1:] != self.case[:-1]])
        of_cases: NDArray[Any] = values[first]
        return of_cases

    def read(self, positions: NDArray[Any]) -> list[TableRow]:
        """Return rows with their texts. Reads the lines of these rows only, and verifies each of them."""
        return [self._row(position) for position in positions.tolist()]

    def _row(self, position: int) -> TableRow:

        columns, index = self.columns, int(self.case[position])
        end = self._reader.end(index)
        assert end is not None
        if not self._has_parts:
            scores = [score for scorer in self._scorers for score in self._reader.scores(index, scorer)]
            return TableRow(end, "", end.label, end.tags, self._reader.records(index), scores)
        places = self._score_positions[self._scores_by_row.positions(position)]
        scores = [self._score_lines.decoded(columns.score_offset[place], _scores) for place in places.tolist()]
        if not scores:
            return TableRow(end, "", end.label, end.tags, [], [])
        key = _part_keys(self.case[position : position + 1], columns.score_part.take(places[:1]))[0]
        offsets = as_numpy(columns.record_offset)[self._records_by_part.positions(key)].tolist()
        if columns.tries.get(index, 1) > 1:
            # Records of earlier tries are in the columns too.
            committed = {*end.lines, columns.ask.offsets[index]}
            offsets = [offset for offset in offsets if offset in committed]
        records = [self._record_lines.decoded(offset, _records) for offset in offsets]
        first = scores[0]
        return TableRow(end, first.part, first.label, first.tags, records, scores)

    def final_labels(self, case: int) -> dict[str, str]:
        """Return the label of each part of a case that counts, by the part. Reads one score of each."""
        import numpy as np

        labels = {}
        for position in np.flatnonzero((self.case == case) & ~self.interim).tolist():
            places = self._score_positions[self._scores_by_row.positions(position)[:1]].tolist()
            for place in places:
                score = self._score_lines.decoded(self.columns.score_offset[place], _scores)
                labels[score.part] = score.label
        return labels

    def close(self) -> None:
        """Close the files."""
        self._reader.close()
        self._record_lines.close()
        self._score_lines.close()


class _Groups:
    """Finds the positions of equal values in an array by binary search. Sorts the array at the first search."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self._order: NDArray[Any] | None = None

    def positions(self, value: Any) -> NDArray[Any]:
        """Return the positions that have this value, in ascending order."""
        import numpy as np

        if self._order is None:
            self._order = np.argsort(self._values, kind="stable")
            self._values = self._values[self._order]
        first, last = (
            np.searchsorted(self._values, value, "left"),
            np.searchsorted(self._values, value, "right"),
        )
        found: NDArray[Any] = self._order[first:last]
        return found


def _part_keys(cases: NDArray[Any], parts: NDArray[Any]) -> NDArray[Any]:
    """Return one number for each case and part."""
    import numpy as np

    # An odd factor keeps different cases different.
    keys: NDArray[Any] = cases.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + parts
    return keys
