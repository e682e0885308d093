"""What a memory test shows: its scores, a curve for each memory, categories, time and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from assay import api
from assay.api import Run
from assay.cli.compare import table_row
from assay.cli.report import closing
from assay.cli.screen import table
from assay.core.chart import sparkline

_NAMES = {"f1": "token F1", "exact_match": "exact", "evidence_recall": "evidence", "abstention": "abstained"}


def report_memory_test(run: Run) -> None:
    """Everything a person wants to know when a test ends or is looked at."""
    results = run.summary.results
    if results:
        names = [name for name in _NAMES if any(_has(found, name) for found in results.values())]
        _scores(results, names)
        _curves(results, names)
        _categories(results, names)
        _use(results)
        _pairs(run)
    closing(run)


def _pairs(run: Run) -> None:
    """Every other memory against the first, by every score, on the same questions of all tests."""
    names = list(run.summary.results)
    if len(names) < 2 or run.exit_code == 130:
        return
    compared = api.compare([f"{run.folder}@{name}" for name in names], 0).comparisons
    rows = [
        [pair.base.subject, pair.new.subject, _NAMES.get(row.metric, row.metric), *table_row(row)]
        for pair in compared
        for row in pair.rows
    ]
    table(
        ["base", "new", "score", "base's", "new's", "difference", "95% interval", "n", "won/lost", "p", ""],
        rows,
    )
    click.echo(f"all tests together; one by one: assay compare {run.folder}")
    click.echo()


def _has(found: dict[str, Any], name: str) -> bool:
    return any(metric["metric"] == name for metric in found["metrics"])


def _scores(results: dict[str, Any], names: list[str]) -> None:
    rows = [[found["alias"], *_row(_by_name(found), names), *_counts(found)] for found in results.values()]
    table(["memory", *map(_NAMES.__getitem__, names), "conversations", "answers", "errors"], rows)
    click.echo()


def _by_name(found: dict[str, Any]) -> dict[str, Any]:
    return {metric["metric"]: metric for metric in found["metrics"]}


def _row(values: dict[str, Any], names: list[str]) -> list[str]:
    return [_value(values.get(name)) for name in names]


def _value(found: dict[str, Any] | None) -> str:
    """`0.512 ±0.031 1,540`: the value, half of its interval, and how many questions it is of."""
    if not found or found["value"] is None:
        return "–"
    interval = found["interval"]
    half = f" ±{(interval[1] - interval[0]) / 2:.3f}" if interval else ""
    return f"{found['value']:.3f}{half} {found['n']:,}"


def _counts(found: dict[str, Any]) -> list[str]:
    counts = found["counts"]
    failed = f" ({counts['failed']:,} failed)" if counts["failed"] else ""
    return [f"{counts['conversations']:,}{failed}", f"{counts['answers']:,}", f"{counts['errors']:,}"]


def _curves(results: dict[str, Any], names: list[str]) -> None:
    """The first score that there is, test by test."""
    name = names[0] if names else ""
    rows = []
    for found in results.values():
        values = [(test.get(name) or {}).get("value") for test in found["tests"]]
        if any(value is not None for value in values):
            ends = [f"{value:.3f}" for value in (values[0], values[-1]) if value is not None]
            rows.append([found["alias"], sparkline(values), " → ".join(ends)])
    if rows:
        table(["memory", f"{_NAMES[name]}, test by test", ""], rows)
        click.echo()


def _categories(results: dict[str, Any], names: list[str]) -> None:
    """Of memories; a yardstick has its numbers in the summary."""
    memories = [found for found in results.values() if not found["reference"]] or list(results.values())
    rows = [row for found in memories for row in _category_rows(found, names)]
    if rows:
        table(["memory", "category", *map(_NAMES.__getitem__, names)], rows)
        click.echo()


def _category_rows(found: dict[str, Any], names: list[str]) -> Iterator[list[str]]:
    for category, values in found["categories"].items():
        yield [found["alias"], category, *_row(values, names)]


def _use(results: dict[str, Any]) -> None:
    rows = []
    for found in results.values():
        for stage, seconds in found["seconds"].items():
            if seconds["n"]:
                spent = found["tokens"].get({"insertion": "storage"}.get(stage, stage), {})
                tokens = [f"{spent.get(side, 0):,}" for side in ("input", "output")] if spent else ["–", "–"]
                rows.append(
                    [found["alias"], stage, *(f"{seconds[at]:.4f}" for at in ("p50", "p95")), *tokens]
                )
    if rows:
        table(["memory", "stage", "p50 s", "p95 s", "tokens in", "tokens out"], rows)
        click.echo()
