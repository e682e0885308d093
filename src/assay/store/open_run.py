"""A run that stays open in a long-lived process: its table, cases and progress follow the journal as it grows.

    run = OpenRun(folder)
    run.table().select(failed=True)
    run.progress().done             # reads the lines that were added since the last look, no others

The columns are read once. Everything else is made of them when it is asked for. An OpenRun is for one thread at a
time: columns cannot grow while another thread reads them.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.types import End, Score
from assay.files.plain_files import plain_size
from assay.journal import sidecar
from assay.journal.columns import SCORED, ColumnsHead, RunColumns
from assay.journal.earlier import EARLIER, earlier_scorings
from assay.journal.index import INFRA_ERROR, OK, SUBJECT_ERROR
from assay.journal.run_files import FILES, RunInfo, Summary, journal_sizes, read_info, read_summary
from assay.store.cases import RunCases, StoredCase, counted_scorers
from assay.store.row_table import RowTable, ValueRange
from assay.store.runs import is_locked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assay.store.comparison.case_pages import FlippedRows

# A running run writes many lines a second. Its table is made again at most this often, in seconds.
_TABLE_SECONDS = 1.0
# Several people may watch one run. They see the same look at it.
_PROGRESS_SECONDS = 0.5
# Selections of rows that are kept in memory, 4 MB each at a million rows.
_MAX_ORDERS = 4
_BINS = 24
# A journal of short replies is about this many times as large as its columns.
_JOURNAL_PER_COLUMNS = 25


class RowSelection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which rows of a table, and in which order. An empty field excludes no row."""

    failed: bool = False
    status: str = ""
    tag: str = ""
    subject: str = ""
    set: str = ""
    slower: float | None = None
    """Only rows that took longer than this many seconds."""
    flaky: bool = False
    """Only rows whose repeats or votes do not agree."""
    value: str = ""
    least: float | None = None
    most: float | None = None
    below: float | None = None
    """Only rows whose column `value`, a metric or `seconds` and so on, is in this range. See `ValueRange`."""
    against: str = ""
    flip: Literal["", "worse", "better"] = ""
    """Only rows whose verdict differs from that of the run `against`: worse, better, or either."""
    sort: str = "index"
    desc: bool = False

    @property
    def values(self) -> ValueRange | None:
        """The range of the column `value`. None if no column is named: a person may type the bounds first."""
        return ValueRange(self.value, self.least, self.most, self.below) if self.value else None


class Distribution(Struct, frozen=True):
    """How the values of a column are spread: counts between edges, and some quantiles. `count` cases have a value.

    A value on an edge counts on the right of it. The last count has all values from its left edge on.
    """

    counts: list[int]
    edges: list[float]
    count: int
    median: float
    p95: float
    largest: float


class LiveMetric(Struct, frozen=True):
    """The mean of a metric over the rows that have a score so far. It has no interval: the run is not over."""

    name: str
    mean: float
    count: int


class RunProgress(Struct, frozen=True, kw_only=True):
    """How far a run is. `metrics` is empty for a run that is not running: its report has its numbers."""

    state: str
    total: int
    ok: int
    subject_error: int
    infra_error: int
    calls: int
    retries: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    """The part of `output_tokens` that was reasoning."""
    adapted: tuple[str, ...]
    """How requests were changed for endpoints that rejected a parameter."""
    cost: float | None
    """In US dollars, judges included. None if no call has a price."""
    unpriced_calls: int
    """Paid calls whose price is not known, so that `cost` lacks it."""
    scoring_cost: float | None
    price_tables: tuple[str, ...]
    metrics: tuple[LiveMetric, ...]

    @property
    def done(self) -> int:
        """The number of cases that have ended."""
        return self.ok + self.subject_error + self.infra_error

    @property
    def share(self) -> float:
        """The share of cases that have ended, from 0 to 1."""
        return self.done / self.total if self.total else 0.0


class OpenRun:
    """One run folder. Methods raise DamagedRun for a journal that is not as assay wrote it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info: RunInfo = read_info(folder)
        self._columns: RunColumns | None = None
        self._is_mapped = False
        self._table: RowTable | None = None
        self._table_stamp: tuple[int, ...] = ()
        self._table_time = 0.0
        self._cases: RunCases | None = None
        self._orders: dict[tuple[RowSelection, FlippedRows | None], NDArray[np.int32]] = {}
        self._distributions: dict[str, Distribution | None] = {}
        self._failed: NDArray[np.bool_] | None = None
        self._progress: RunProgress | None = None
        self._progress_time = 0.0
        self._progress_stamp: tuple[int, ...] = ()

    def summary(self) -> Summary | None:
        """Return summary.json as it is now, with the whole report; None if the run has none yet."""
        return read_summary(self.folder)

    def earlier_scorings(self) -> list[str]:
        """Return a line for each earlier scoring of the run: its folder in the run folder, and its first numbers."""
        summary = self.summary()
        scorings = earlier_scorings(self.folder, summary.score) if summary else []
        return [f"{EARLIER}/{scoring.folder.name}: {scoring.numbers}" for scoring in scorings]

    def state(self) -> str:
        """Return the state of the run as `assay runs` prints it."""
        if is_locked(self.folder):
            return "running"
        summary = self.summary()
        return summary.state if summary else "unfinished"

    def table(self) -> RowTable:
        """Return the rows that have ended. While the run is running, the table is up to a second old."""
        stamp = self._stamp()
        is_recent = time.monotonic() - self._table_time < _TABLE_SECONDS
        if self._table is not None and (stamp == self._table_stamp or (is_recent and is_locked(self.folder))):
            return self._table
        columns = self._extended()
        if self._table is not None:
            self._table.close()
        self._cases = None
        self._orders.clear()
        self._distributions.clear()
        self._failed = None
        self._table = RowTable(self.folder, columns)
        self._table_stamp, self._table_time = stamp, time.monotonic()
        return self._table

    def rows(self, selection: RowSelection, flipped: FlippedRows | None = None) -> NDArray[np.int32]:
        """Return the positions of the selected rows in the table, in order. The last few selections are kept.

        A selection `against` another run needs the rows that flipped since then.
        """
        table = self.table()
        order = self._orders.pop((selection, flipped), None)
        if order is None:
            positions = table.select(
                failed=selection.failed,
                status=selection.status,
                tag=selection.tag,
                subject=selection.subject,
                set_name=selection.set,
                slower_than=selection.slower,
                flaky=selection.flaky,
                values=selection.values,
            )
            if flipped is not None:
                positions = positions[_has_flipped(table, flipped, selection.flip)[positions]]
            if selection.sort != "index" or selection.desc:
                positions = table.sort(positions, selection.sort, descending=selection.desc)
            order = positions
        self._orders[selection, flipped] = order  # at the end: the first one was used least recently
        while len(self._orders) > _MAX_ORDERS:
            del self._orders[next(iter(self._orders))]
        return order

    def failed(self) -> NDArray[np.bool_]:
        """Return for each row of the table whether it failed. Kept, because every page of rows shows it."""
        table = self.table()
        if self._failed is None:
            self._failed = table.failed()
        return self._failed

    @property
    def size(self) -> int:
        """The number of rows in memory."""
        return len(self._table) if self._table is not None else 0

    def distribution(self, column: str) -> Distribution | None:
        """Return how the values of a column are spread over all cases; None if no case has a value.

        A case counts once, also one with many rows: its time is that of a whole conversation.
        """
        table = self.table()
        if column not in self._distributions:
            self._distributions[column] = _distribution(table.case_values(column), column)
        return self._distributions[column]

    def case(self, index: int) -> StoredCase:
        """Return a case with its calls. Raises UsageError if the run has no case of this number that has ended."""
        cases = self.cases()
        case = cases.case(index)
        if case is None:
            raise UsageError(f"{self.folder.name} has no case {index} that has ended")
        return case._replace(calls=cases.calls(index))

    def end(self, index: int) -> End:
        """Return how a case of the table ended. Reads one line."""
        return self.cases().end(index)

    def earlier_scores(self, index: int) -> dict[str, list[Score]]:
        """Return the scores of a case by judges that were replaced by another one, by scorer."""
        return self.cases().earlier_scores(index)

    def cases(self) -> RunCases:
        """Return the cases that have ended, without their calls, read by the columns that are open already."""
        table = self.table()
        if self._cases is None:
            self._cases = RunCases(self.folder, table.columns)
        return self._cases

    def progress(self) -> RunProgress:
        """Return how far the run is, with the means of its metrics so far."""
        now, stamp, state = time.monotonic(), self._stamp(), self.state()
        known = self._progress
        if known is not None and known.state == state:
            is_recent = now - self._progress_time < _PROGRESS_SECONDS
            if stamp == self._progress_stamp or (is_recent and state == "running"):
                return known
        columns = self._extended()
        codes, spent = columns.ask.codes, columns.spent
        self._progress_time, self._progress_stamp = now, stamp
        self._progress = RunProgress(
            state=state,
            total=self.info.total,
            ok=codes.count(OK),
            subject_error=codes.count(SUBJECT_ERROR),
            infra_error=codes.count(INFRA_ERROR),
            calls=spent.calls,
            retries=spent.retries,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            reasoning_tokens=spent.reasoning_tokens,
            adapted=tuple(spent.adapted),
            cost=spent.cost if spent.cost is not None else spent.copied_cost if self.info.imported else None,
            unpriced_calls=spent.unpriced_calls,
            scoring_cost=spent.scoring_cost,
            price_tables=tuple(dict.fromkeys(table.partition("/")[0] for table in spent.price_tables)),
            # The numbers of a run that is over are in its report.
            metrics=self._live_metrics(columns) if state == "running" else (),
        )
        return self._progress

    def release_memory(self) -> None:
        """Give back the memory of columns that are mapped files. They are read again where they are needed."""
        if self._columns is not None:
            self._columns.release_pages()

    def close(self) -> None:
        """Close the files and forget the columns."""
        if self._table is not None:
            self._table.close()
        self._columns = self._table = self._cases = None

    def _extended(self) -> RunColumns:
        """Return the columns with all lines that the journal has now."""
        columns = self._columns
        if columns is not None:
            if columns.covers(self.folder):
                return columns
            sizes = dict(zip(FILES, self._stamp(), strict=False))
            if self._is_mapped or any(sizes[name] < end for name, end in columns.positions.items()):
                columns = None  # mapped columns cannot grow; a journal that shrank was repaired or replaced
        if columns is None:
            columns = RunColumns.open_mapped(self.folder, self.info.score_parts)
            self._is_mapped = columns is not None
            columns = columns or RunColumns.open(self.folder, self.info.score_parts)
        else:
            columns.extend(self.folder)
        self._columns = columns
        return columns

    def _live_metrics(self, columns: RunColumns) -> tuple[LiveMetric, ...]:
        import numpy as np

        arrays = columns.scores(counted_scorers(self.folder, self.summary()), digests=False)
        counts: NDArray[np.bool_] = (arrays.state == SCORED) & ~arrays.interim
        names, values = arrays.name[counts], arrays.value[counts]
        sums = np.bincount(names, weights=values)
        sizes = np.bincount(names)
        metrics = []
        for number in np.flatnonzero(sizes).tolist():
            name = columns.score_names.names[number]
            title = f"{name.metric},{name.filter}" if name.filter else name.metric
            metrics.append(LiveMetric(title, float(sums[number] / sizes[number]), int(sizes[number])))
        return tuple(metrics)

    def _stamp(self) -> tuple[int, ...]:
        """Return the sizes of the journal's files, and when the summary was written."""
        paths = [self.folder / name for name in FILES]
        sizes = [plain_size(path) or 0 for path in paths]
        summary = self.folder / "summary.json"
        return (*sizes, summary.stat().st_mtime_ns if summary.is_file() else 0)


def unread_bytes(folder: Path) -> int:
    """Return how many bytes of the journal the next reader has to read, because no sidecar covers them."""
    sizes = journal_sizes(folder)
    head = sidecar.load_head(folder / RunColumns.sidecar_name, ColumnsHead)
    covered = {name: at.end for name, at in head.positions.items()} if head is not None else {}
    return sum(max(0, size - covered.get(name, 0)) for name, size in sizes.items())


def column_bytes(folder: Path) -> int:
    """Return the size of a run's columns. Without a sidecar it is estimated from the size of the journal."""
    paths = [folder / RunColumns.sidecar_name, *(folder / name for name in FILES)]
    columns, *files = [plain_size(path) or 0 for path in paths]
    return columns or sum(files) // _JOURNAL_PER_COLUMNS


def _has_flipped(table: RowTable, flipped: FlippedRows, flip: str) -> NDArray[np.bool_]:
    if flip:
        return table.is_one_of(flipped.worse if flip == "worse" else flipped.better)
    either: NDArray[np.bool_] = table.is_one_of(flipped.worse) | table.is_one_of(flipped.better)
    return either


def _distribution(values: NDArray[np.float64], column: str) -> Distribution | None:
    import numpy as np

    # The column of a metric belongs to the table. This copy is ours: a million values are not copied again below.
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    quantiles = np.quantile(values, [0.5, 0.95, 0.99, 1.0], overwrite_input=True)
    median, p95, p99, largest = quantiles.tolist()
    # A few very slow cases would press all others into the first bar, so the last bar has everything above.
    top = largest if largest <= 2 * p99 else p99
    width = _bar_width(top / _BINS)
    if column not in ("seconds", "cost"):
        width = max(1.0, width)  # whole numbers
    # One more bar for a largest value that is an edge itself.
    bars = int(top / width) + 1
    # Rounded, because 3 times 0.1 is not 0.3.
    edges = [float(f"{number * width:.10g}") for number in range(bars + 1)]
    # The index has 32 bits of a time. Edges of as many bits keep 0.7 s on the right of the edge at 0.7 s.
    bounds = np.array([*edges[:-1], math.inf], dtype=np.float32 if column == "seconds" else np.float64)
    counts, _ = np.histogram(values, bins=bounds)
    return Distribution(counts.tolist(), edges, len(values), median, p95, largest)


def _bar_width(least: float) -> float:
    """Return the next number that people count in: 1, 2 or 5 times a power of ten."""
    if least <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))
