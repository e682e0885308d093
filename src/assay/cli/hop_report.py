"""The end of a batch on the screen: rates by profile, tag and difficulty, bands, time, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from assay.api import Run
from assay.cli.compare import show_pairs, table_row
from assay.cli.report import closing
from assay.cli.screen import block, heading, table
from assay.core.report import Entry, Metric, Report, Slice, Table
from assay.core.types import Record

_MOST_SHOWN, _MOST_CHARACTERS, _MOST_RETURNED = 10, 300, 4000


def report_hop(run: Run) -> None:
    """Everything a person wants to know when a batch ends or is looked at."""
    if run.report is not None:
        print_hop_report(run.report)
        show_pairs(run)
    closing(run)


def print_hop_report(report: Report) -> None:
    """What came of the rows, whoever wrote them."""
    header = ["profile", "total", "errors", "completed", "right of completed", "right of all"]
    rows = [row for entry in report.entries for row in _rates(entry)]
    table([*header, "p50 s", "p95 s"], rows)
    click.echo()
    for entry in report.entries:
        fields = {part.name: part for part in entry.slices if part.by == "field"}
        for one in entry.tables:
            if one.name.startswith("bands "):
                _print_bands(entry, one, fields[one.name.removeprefix("bands ")])
            elif one.name == "operators":
                columns = [f"{entry.title}: {one.columns[0]}", *one.columns[1:]]
                table(
                    columns,
                    [
                        [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
                        for row in one.rows
                    ],
                )
                click.echo()
        _print_examples(entry)
    if report.differences:
        header = ["base", "new", "base's", "new's", "difference", "95% interval", "n", "won/lost", "p", ""]
        table(header, [[pair.base, pair.new, *table_row(pair.row)] for pair in report.differences])


def show_row(records: Sequence[Record]) -> None:
    """The steps that a function traced, and what it returned."""
    for record in records:
        told = record.data
        if record.kind == "step":
            retries = f", {told['retry_count']:,} × retried" if told["retry_count"] else ""
            heading(f"step {told['step']} {told['op']}: {told['status']} ({told['duration']:.3f} s{retries})")
            if told["task"]:
                block(told["task"], most=_MOST_CHARACTERS)
            if told["metadata"]:
                block("\n".join(f"{name}: {value}" for name, value in told["metadata"].items()))
        elif record.kind == "answer":
            heading(f"result: {told['status']}")
            block(told["result"], most=_MOST_RETURNED)


def _rates(entry: Entry) -> Iterator[list[str]]:
    times = ["", ""]
    for one in entry.tables:
        if one.name == "seconds":
            times = [f"{cell:.3f}" for cell in one.rows[0][1:] if isinstance(cell, (int, float))]
    yield [entry.title, *_counts(entry), *times]
    for part in entry.slices:
        if part.by == "field":
            continue
        yield [f"  #{part.name}" if part.by == "tag" else f"  {part.name}", *_counts(part), "", ""]


def _counts(numbers: Entry | Slice) -> list[str]:
    by_name = {metric.name: metric for metric in numbers.metrics}
    shares = [_share(by_name[name]) for name in ("completion", "correct_of_completed", "correct_of_all")]
    return [f"{numbers.counts['total']:,}", f"{numbers.counts['errors']:,}", *shares]


def _share(metric: Metric) -> str:
    if metric.value is None:
        return "–"
    return f"{metric.value:.3f} {metric.numerator:,.0f}/{metric.denominator:,}"


def _print_bands(entry: Entry, bands: Table, field: Slice) -> None:
    heading(f"{entry.title}: {bands.title}")
    table(bands.columns, _texts(bands))
    click.echo(" · ".join(f"{metric.title} {_share(metric)}" for metric in field.metrics))
    click.echo()


def _print_examples(entry: Entry) -> None:
    for examples in entry.examples:
        if not examples.total:
            continue
        heading(f"{entry.title}: {examples.title}")
        for example in examples.shown[:_MOST_SHOWN]:
            block(f"{example.label}: {example.reason}", most=_MOST_CHARACTERS)
        if more := examples.total - len(examples.shown[:_MOST_SHOWN]):
            click.echo(f"  … {more:,} more")
        click.echo()


def _texts(one: Table) -> list[list[str]]:
    return [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in one.rows]
