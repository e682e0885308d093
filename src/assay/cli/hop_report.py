"""The end of a batch on the screen: rates by profile, tag and difficulty, bands, time, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from assay.api import Run
from assay.cli.compare import show_pairs, table_row
from assay.cli.footer import print_footer as closing
from assay.cli.screen import block, counted, heading, table
from assay.core.report import PairedRow
from assay.core.types import Record

_MOST_SHOWN, _MOST_CHARACTERS, _MOST_RETURNED = 10, 300, 4000


def report_hop(run: Run) -> None:
    """Everything a person wants to know when a batch ends or is looked at."""
    if run.summary.results:
        show_analysis(run.summary.results)
        show_pairs(run)
    closing(run)


def report_files(results: dict[str, Any]) -> None:
    """The same of files that are there: their profiles are compared by what the files hold."""
    show_analysis(results)
    rows = [
        [base, new, *table_row(msgspec.convert(row, PairedRow))]
        for new, found in results.items()
        for base, row in found["compared_with"].items()
    ]
    if rows:
        table(
            ["base", "new", "base's", "new's", "difference", "95% interval", "n", "won/lost", "p", ""], rows
        )


def show_analysis(results: dict[str, Any]) -> None:
    """What came of the rows, whoever wrote them."""
    rows = [row for profile, found in results.items() for row in _rates(profile, found)]
    table(
        [
            "profile",
            "total",
            "errors",
            "completed",
            "right of completed",
            "right of all",
            "p50 s",
            "p95 s",
        ],
        rows,
    )
    click.echo()
    for profile, found in results.items():
        _bands(profile, found)
        _operators(profile, found["operators"])
        _differing(profile, found["differing"])


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


def _rates(profile: str, found: dict[str, Any]) -> Iterator[list[str]]:
    seconds = found["seconds"]
    times = ["" if seconds[name] is None else f"{seconds[name]:.3f}" for name in ("p50", "p95")]
    yield [profile, *_counts(found), *times]
    for tag, counts in found["tags"].items():
        yield [f"  #{tag}", *_counts(counts), "", ""]
    for name, counts in found["difficulties"].items():
        yield [f"  {name}", *_counts(counts), "", ""]


def _counts(found: dict[str, Any]) -> list[str]:
    shares = [_share(found[name]) for name in ("correct_of_completed", "correct_of_all")]
    return [f"{found['total']:,}", f"{found['errors']:,}", _share(found["completion"]), *shares]


def _share(rate: dict[str, Any]) -> str:
    if rate["value"] is None:
        return "–"
    return f"{rate['value']:.3f} {rate['numerator']:,}/{rate['n']:,}"


def _bands(profile: str, found: dict[str, Any]) -> None:
    for field, bands in found["bands"].items():
        heading(f"{profile}: bands of {field} (rows expected, columns found)")
        names = list(bands["matrix"])
        rows = [[row, *(f"{bands['matrix'][row][column]:,}" for column in names)] for row in names]
        table(["", *names], rows)
        near = found["within_one"].get(field)
        parts = [f"same band {_share(bands['accuracy'])}", f"other end {_share(bands['cross_band'])}"]
        click.echo(" · ".join([*parts, f"within one {_share(near)}"] if near else parts))
        click.echo()


def _operators(profile: str, operators: dict[str, Any]) -> None:
    if not operators:
        return
    rows = [
        [name, f"{counts.get('calls', 0):,}", f"{counts.get('ok', 0):,}", f"{counts.get('retries', 0):,}"]
        for name, counts in operators.items()
    ]
    table([f"{profile}: operator", "calls", "ok", "retries"], rows)
    click.echo()


def _differing(profile: str, differing: dict[str, Any]) -> None:
    if not differing["count"]:
        return
    rows = counted(differing["count"], "row differs", "rows differ")
    heading(f"{profile}: {rows} or failed")
    for case in differing["shown"][:_MOST_SHOWN]:
        said = case["error"] or "; ".join(case["why"])
        name = "(no id)" if case["id"] is None else case["id"]
        block(f"{name} #{case['tag']}: {said}", most=_MOST_CHARACTERS)
    if more := differing["count"] - len(differing["shown"][:_MOST_SHOWN]):
        click.echo(f"  … {more:,} more")
    click.echo()
