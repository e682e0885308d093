"""The end of a pipeline run on the screen: pass rates, steps, and where each bad case went wrong first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from assay.api import Run
from assay.cli.compare import show_pairs
from assay.cli.footer import print_footer as closing
from assay.cli.judge_report import say_judge
from assay.cli.screen import block, heading, safe, table
from assay.core.types import Record

_COUNTED = ("passed", "failed", "errored", "not_evaluated", "skipped", "invalid", "no_answer")
_MOST_CHARACTERS = 300
_MOST_SHOWN = 4000


def report_pipeline(run: Run) -> None:
    """Everything a person wants to know when a pipeline run ends or is looked at."""
    for variant, found in run.summary.results.items():
        _rates(variant, found)
        _steps(found["steps"])
        _worst(found["worst"])
    show_pairs(run)
    say_judge(run.results)
    closing(run)


def _rates(variant: str, found: dict[str, Any]) -> None:
    whole = {**found["metrics"][0], "counts": found["counts"]}
    rows = [_rate(variant, whole)]
    if len(found["sets"]) > 1:
        rows += [_rate(f"  {name}", rate) for name, rate in found["sets"].items()]
    rows += [_rate(f"  #{tag}", rate) for tag, rate in found["tags"].items()]
    shown = [name for name in _COUNTED if any(row["counts"].get(name) for row in _all(whole, found))]
    names = ["passed", *(name for name in shown if name != "passed")]
    cells = [[*row[:3], *(str(row[3].get(name, 0)) for name in names)] for row in rows]
    table(["variant", "pass rate", "95% interval", *(name.replace("_", " ") for name in names)], cells)
    click.echo()


def _all(whole: dict[str, Any], found: dict[str, Any]) -> list[dict[str, Any]]:
    return [whole, *found["sets"].values(), *found["tags"].values()]


def _rate(name: str, rate: dict[str, Any]) -> Any:
    low_high = rate["interval"]
    shown = f"{low_high[0]:.2f} – {low_high[1]:.2f}" if low_high else ""
    value = f"{rate['value']:.3f}  {rate['numerator']:,}/{rate['n']:,}" if rate["n"] else "none evaluated"
    return safe(name), value, shown, rate["counts"]


def _steps(steps: dict[str, Any]) -> None:
    rows = [
        [
            name,
            f"{step['ok']:,}",
            f"{step['failed']:,}",
            f"{step['skipped']:,}",
            f"{step['first_wrong']:,}",
            _seconds(step["p50"]),
            _seconds(step["p95"]),
            f"{step['calls']:,}",
            f"{step['input_tokens']:,}",
            f"{step['output_tokens']:,}",
        ]
        for name, step in steps.items()
    ]
    table(
        ["step", "ok", "failed", "skipped", "wrong first", "p50 s", "p95 s", "calls", "tokens in", "out"],
        rows,
    )
    for name, step in steps.items():
        if step.get("failed_items"):
            click.echo(f"{name}: {step['failed_items']:,} of {step['items']:,} items failed")
    click.echo()


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _worst(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        wrong = case["first_wrong"] or {}
        place = f" at step {wrong['step']}" if wrong.get("step") else ""
        count = f", {case['failed_checks']} of {case['checks']} checks" if case["checks"] else ""
        heading(f"✗ {case['set']}/{case['id']} {case['verdict']}{place}{count}")
        if "expected" in wrong or "actual" in wrong:
            _difference(wrong)
        else:
            block(wrong.get("why") or case["reason"], indent="    ", most=_MOST_CHARACTERS)
    if cases:
        click.echo()


def _difference(wrong: dict[str, Any]) -> None:
    """What was expected, what came, and why that is not the same."""
    block(f"{wrong['path'] or 'output'}: {wrong.get('why', '')}", indent="    ", most=_MOST_CHARACTERS)
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
