"""The columns of the table of rows: which ones a run has, and which of them a person chose.

    columns = offered_columns(run)
    shown_columns(columns, ("status", "exact_match,strict", "cost"))

Names are those of `assay show --where` where both have the column; a metric is named as `metric` or `metric,filter`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from assay.core.errors import UsageError, unknown
from assay.core.suite_pages import SuitePages
from assay.store.cases import answer_preview
from assay.store.open_run import OpenRun
from assay.store.row_table import RowTable, TableRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

RowCell = str | float | tuple[str, ...] | None
"""A text, a number, or tags. None was not measured."""

# Characters of a text in the table.
_MAX_PREVIEW = 160

# Metrics that have a column unless a person chooses others. Suites with rubrics may have hundreds.
_MAX_METRICS = 6
# Metrics that the page offers. The address accepts all.
_MAX_OFFERED = 100


class RowColumn(Struct, frozen=True, kw_only=True):
    """A column that the table can have. `is_default` if the table has it when a person chose no columns."""

    name: str
    title: str
    kind: Literal["status", "name", "metric", "seconds", "count", "cost", "tags", "text"]
    is_default: bool = False
    is_offered: bool = True

    @property
    def is_number(self) -> bool:
        """Whether rows can be sorted by the column, and filtered by its values."""
        return self.kind in ("metric", "seconds", "count", "cost") and self.name != "tries"


def offered_columns(run: OpenRun) -> list[RowColumn]:
    """Return all columns that the table of this run can have, in their order."""
    table = run.table()
    # A question has no time and no tokens of its own.
    of_case = "case " if table.has_parts else ""
    columns = [
        RowColumn(name="index", title="Position", kind="count"),
        RowColumn(name="subject", title="Subject", kind="name", is_default=len(table.subjects) > 1),
        RowColumn(name="set", title="Set", kind="name"),
        RowColumn(name="status", title="Status", kind="status", is_default=True),
    ]
    for number, metric in enumerate(table.metrics):
        name = f"{metric.metric},{metric.filter}".rstrip(",")
        columns.append(
            RowColumn(
                name=name,
                title=name,
                kind="metric",
                is_default=number < _MAX_METRICS,
                is_offered=number < _MAX_OFFERED,
            )
        )
    columns += [
        RowColumn(name="seconds", title=f"{of_case}time".capitalize(), kind="seconds", is_default=True),
        RowColumn(name="input", title=f"{of_case}input tokens".capitalize(), kind="count"),
        RowColumn(name="output", title=f"{of_case}output tokens".capitalize(), kind="count", is_default=True),
        RowColumn(name="calls", title=f"{of_case}calls".capitalize(), kind="count"),
        RowColumn(name="tries", title=f"{of_case}tries".capitalize(), kind="count"),
    ]
    if table.has_costs:
        columns.append(RowColumn(name="cost", title=f"{of_case}cost".capitalize(), kind="cost"))
    return [
        *columns,
        RowColumn(name="tags", title="Tags", kind="tags"),
        RowColumn(name="answer", title="Answer", kind="text", is_default=True),
        RowColumn(name="expected", title="Expected", kind="text"),
        RowColumn(name="reason", title="Reason", kind="text"),
    ]


def shown_columns(columns: Sequence[RowColumn], chosen: Sequence[str]) -> list[RowColumn]:
    """Return the chosen columns in the order of the table, or those that it has by default.

    Raises UsageError for a name that the run does not have.
    """
    if not chosen:
        return [column for column in columns if column.is_default]
    names = [column.name for column in columns]
    for name in chosen:
        if name not in names:
            raise UsageError(unknown("column", name, names))
    return [column for column in columns if column.name in chosen]


def row_cells(
    pages: SuitePages,
    table: RowTable,
    positions: NDArray[Any],
    rows: Sequence[TableRow],
    columns: Sequence[RowColumn],
    are_failed: Sequence[bool],
) -> list[list[RowCell]]:
    """Return the cells of each row. `rows` are those at these positions of the table."""
    cells: list[list[RowCell]] = [[] for _ in rows]
    for column in columns:
        if column.kind in ("metric", "cost"):
            for line, value in zip(cells, table.column(column.name)[positions].tolist(), strict=True):
                # NaN is the table's word for "not measured".
                line.append(None if value != value else value)  # noqa: PLR0124
            continue
        # All other values are in the lines that were read. The column of a million rows would take longer.
        for line, row, is_failed in zip(cells, rows, are_failed, strict=True):
            line.append(_cell(pages, column.name, row, is_failed=is_failed))
    return cells


def _cell(pages: SuitePages, column: str, row: TableRow, *, is_failed: bool) -> RowCell:
    end, scores = row.end, [score for score in row.scores if not score.interim]
    match column:
        case "index":
            return end.index
        case "subject":
            return end.subject
        case "set":
            return end.set
        case "status":
            return "failed" if end.status == "ok" and is_failed else end.outcome
        case "seconds":
            return end.seconds
        case "input":
            return end.usage.input if end.usage else None
        case "output":
            return end.usage.output if end.usage else None
        case "calls":
            return end.calls
        case "tries":
            return end.try_
        case "tags":
            return row.tags
        case "answer":
            return answer_preview(pages, end.failure, row.records, _MAX_PREVIEW)
        case "expected":
            return _one_line(next((each.expected for each in scores if each.expected is not None), None))
        case _:
            return _one_line(next((each.reason for each in scores if each.reason), None))


def _one_line(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    flat = " ".join(text[: 4 * _MAX_PREVIEW].split())
    return flat if len(flat) <= _MAX_PREVIEW else flat[: _MAX_PREVIEW - 1] + "…"
