"""What a memory costs by purpose (build, retrieve, answer, judge), as numbers and as a table that is titled "stages".

numbers = purpose_numbers(usage, {"build": [0.2, 0.3], "retrieve": [0.01]})
tables = purpose_tables(numbers)          # at most one table
purpose_numbers_of(tables[0]) == numbers  # for exports, which have only the report
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, convert

from assay.core.report import Cell, Table
from assay.core.usage import PURPOSES, PurposeUsage
from assay.scoring.statistics import percentiles

NAME = "usage"
# Fields of PurposeNumbers by column. A column without any value is left out.
_COLUMNS = {
    "operations": "operations",
    "calls": "calls",
    "reused": "reused",
    "failed": "failed",
    "tokens in": "input_tokens",
    "tokens out": "output_tokens",
    "cost $": "cost",
    "seconds": "seconds",
    "p50 ms": "seconds_p50",
    "p95 ms": "seconds_p95",
}
_MILLISECONDS = 1000
# Columns that say nothing if they are 0 in every row.
_USUALLY_ZERO = ("operations", "calls", "reused", "failed")


class PurposeNumbers(Struct, kw_only=True, omit_defaults=True):
    """Operations and calls for one purpose. None: not measured, for example if an endpoint reports no tokens.

    `seconds` is the time of all these operations, `seconds_p50` and `seconds_p95` that of one: inserting a
    packet or a session, a search, an answer. For the judge `seconds` is the time of judging all cases.
    """

    operations: int = 0
    """Packets or sessions inserted, searches, answers. The judge has none: it is counted in calls."""
    calls: int = 0
    reused: int = 0
    failed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    seconds_p50: float | None = None
    seconds_p95: float | None = None


def purpose_numbers(
    usage: Mapping[str, PurposeUsage], seconds: Mapping[str, Sequence[float]]
) -> dict[str, PurposeNumbers]:
    """Return the numbers of each purpose that has calls or operations. `seconds` are those of its operations."""
    numbers: dict[str, PurposeNumbers] = {}
    for purpose in PURPOSES:
        calls, times = usage.get(purpose, PurposeUsage()), seconds.get(purpose, ())
        if not calls.calls and not times:
            continue
        summary = percentiles(times)
        tokens = calls.tokens
        numbers[purpose] = PurposeNumbers(
            operations=len(times),
            calls=calls.calls,
            reused=calls.reused,
            failed=calls.failed,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cost=calls.price,
            seconds=round(sum(times) if times else calls.seconds, 6),
            seconds_p50=summary["p50"],
            seconds_p95=summary["p95"],
        )
    return numbers


def purpose_tables(numbers: Mapping[str, PurposeNumbers]) -> list[Table]:
    """Return the table by purpose, or no table if there are none."""
    if not numbers:
        return []
    columns: list[str] = []
    for column, field in _COLUMNS.items():
        values = [_value(each, field) for each in numbers.values()]
        if any(value is not None and (value or column not in _USUALLY_ZERO) for value in values):
            columns.append(column)
    # Without a price the cost of models in this process, 0, is no news.
    if "cost $" in columns and not any(each.cost for each in numbers.values()):
        columns.remove("cost $")
    rows: list[list[Cell]] = []
    for purpose, each in numbers.items():
        values = [_value(each, _COLUMNS[column]) for column in columns]
        rows.append([purpose, *(_shown(column, value) for column, value in zip(columns, values, strict=True))])
    return [Table(name=NAME, title="stages", columns=["stage", *columns], rows=rows, note=_note(numbers))]


def purpose_numbers_of(table: Table) -> dict[str, PurposeNumbers]:
    """Return the numbers behind a table of `purpose_tables`."""
    numbers: dict[str, PurposeNumbers] = {}
    for purpose, *values in table.rows:
        known: dict[str, float] = {}
        for column, value in zip(table.columns[1:], values, strict=True):
            if isinstance(value, (int, float)):
                known[_COLUMNS[column]] = value / _MILLISECONDS if column.endswith(" ms") else value
        numbers[str(purpose)] = convert(known, PurposeNumbers)
    return numbers


def _value(numbers: PurposeNumbers, field: str) -> int | float | None:
    value: int | float | None = getattr(numbers, field)
    return value


def _shown(column: str, value: float | None) -> float | None:
    return value * _MILLISECONDS if value is not None and column.endswith(" ms") else value


def _note(numbers: Mapping[str, PurposeNumbers]) -> str:
    reused = sum(each.reused for each in numbers.values())
    if not reused:
        return ""
    return f"Replies taken from another run or another memory: {reused:,}. Their tokens and cost were paid there."
