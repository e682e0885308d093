"""The end of a pipeline run on the screen: pass rates, steps, and where each bad case went wrong first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from assay.api import Run
from assay.cli.compare import show_pairs
from assay.cli.judge_report import judge_lines
from assay.cli.report import closing
from assay.cli.screen import block, heading, safe, table
from assay.core.report import Cell, Entry, Table
from assay.core.types import Record

_COUNTED = ("passed", "failed", "errored", "not_evaluated", "skipped", "invalid", "no_answer")
_MOST_CHARACTERS = 300
_MOST_SHOWN = 4000


def report_pipeline(run: Run) -> None:
    """Everything a person wants to know when a pipeline run ends or is looked at."""
    if run.report is not None:
        for entry in run.report.entries:
            _rates(entry)
            _steps(entry.tables[0])
            _worst(entry)
        show_pairs(run)
        for line in judge_lines(run.report.judges()):
            block(line, indent="")
    closing(run)


def _rates(entry: Entry) -> None:
    rows = [(entry.title, entry.metrics[0], entry.counts)]
    sets = [part for part in entry.slices if part.by == "set"]
    if len(sets) > 1:
        rows += [(f"  {part.name}", part.metrics[0], part.counts) for part in sets]
    rows += [(f"  #{part.name}", part.metrics[0], part.counts) for part in entry.slices if part.by == "tag"]
    names = [name for name in _COUNTED if name == "passed" or any(counts.get(name) for _, _, counts in rows)]
    cells = []
    for title, metric, counts in rows:
        value, interval = "none evaluated", ""
        if metric.value is not None:
            value = f"{metric.value:.3f}  {metric.numerator:,.0f}/{metric.denominator:,}"
        if metric.interval:
            interval = f"{metric.interval[0]:.2f} – {metric.interval[1]:.2f}"
        cells.append([safe(title), value, interval, *(str(counts.get(name, 0)) for name in names)])
    table(["variant", "pass rate", "95% interval", *(name.replace("_", " ") for name in names)], cells)
    click.echo()


def _steps(steps: Table) -> None:
    table(steps.columns, [[_cell(cell) for cell in row] for row in steps.rows])
    if steps.note:
        click.echo(steps.note)
    click.echo()


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _worst(entry: Entry) -> None:
    for examples in entry.examples:
        for example in examples.shown:
            heading(f"✗ {example.label} {example.verdict}")
            for difference in example.differences:
                _difference(msgspec.to_builtins(difference))
            if not example.differences:
                block(example.reason, indent="    ", most=_MOST_CHARACTERS)
        if examples.shown:
            click.echo()


def _difference(wrong: dict[str, Any]) -> None:
    """What was expected, what came, and why that is not the same."""
    block(f"{wrong.get('path') or 'output'}: {wrong.get('why', '')}", indent="    ", most=_MOST_CHARACTERS)
    for sign, name in (("-", "expected"), ("+", "actual")):
        shown = json.dumps(wrong[name], ensure_ascii=False) if name in wrong else "(nothing)"
        block(f"{sign} {shown}", indent="    ", most=_MOST_CHARACTERS)


def show_steps(records: Sequence[Record]) -> None:
    """What each step of a case gave, in the order in which they ended."""
    for record in records:
        if record.kind in ("step", "aggregation"):
            said = record.data
            heading(f"{record.kind} {record.part}: {said['status']} ({said.get('seconds', 0.0):.3f} s)")
            shown = said.get("error") or json.dumps(said.get("output"), ensure_ascii=False)
            block(shown, most=_MOST_SHOWN)
        elif record.kind == "skipped":
            heading(f"{record.part}: skipped, {record.data['why']}")


def show_checks(checks: Sequence[dict[str, Any]]) -> None:
    """Every check of a test; of one that failed, what was expected and what came."""
    for check in checks:
        sign = {True: "✓", False: "✗", None: "?"}[check.get("passed")]
        named = (str(check[key]) for key in ("of", "step", "path") if check.get(key))
        block(" ".join([sign, *named]))
        if check.get("passed") is not True:
            _difference(check)
