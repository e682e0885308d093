"""The end of a run on the screen: scores with their intervals, what was left out, where the files are."""

from __future__ import annotations

import shlex
from typing import Any

import click

from assay.api import Run
from assay.cli.screen import duration, number, table


def report(run: Run) -> None:
    """Everything a person wants to know when a run ends or is looked at."""
    if run.summary.results:
        score_table(run.summary.results)
        click.echo()
    click.echo(_counts(run))
    for kind, count in run.summary.failures.items():
        click.echo(f"  {count:,} × {kind}")
    for path in run.files:
        click.echo(f"wrote {path}" if run.asked else f"found {path}")
    click.echo(f"run   {run.folder}")
    if run.exit_code in (3, 130):
        _how_to_continue(run)


def score_table(results: dict[str, Any]) -> None:
    """One line for each task, filter and metric."""
    rows = [_row(name, found, metric) for name, found in results.items() for metric in found["metrics"]]
    table(["task", "filter", "metric", "value", "stderr", "95% interval", "n", "left out"], rows)


def _row(name: str, found: dict[str, Any], metric: dict[str, Any]) -> list[str]:
    interval = metric["interval"]
    shown = f"{interval[0]:.4f} – {interval[1]:.4f}" if interval else ""
    count = f"{metric['numerator']:,}/{metric['n']:,}" if "numerator" in metric else f"{metric['n']:,}"
    left_out = ", ".join(f"{count} {why}" for why, count in metric.get("left_out", {}).items())
    value, error = number(metric["value"]), number(metric["stderr"])
    return [
        found.get("alias", name),
        metric["filter"],
        metric["metric"],
        value,
        error,
        shown,
        count,
        left_out,
    ]


def _counts(run: Run) -> str:
    """What the run cost over all its starts, and what this start asked."""
    summary, spent, now = run.summary, run.summary.spent, run.summary.this_start
    ended = summary.ok + summary.subject_error + summary.infra_error
    parts = [f"{ended:,} of {summary.total:,} cases", f"{spent.get('calls', 0):,} calls"]
    if spent.get("retries"):
        parts.append(f"{spent['retries']:,} retries")
    if spent.get("input_tokens") or spent.get("output_tokens"):
        parts.append(f"{spent['input_tokens']:,} tokens in, {spent['output_tokens']:,} out")
    if not run.asked:
        state = "finished before" if summary.state == "finished" else summary.state
        return " · ".join([*parts, f"{state}, nothing asked"])
    if now.get("paid", 0) != spent.get("calls"):
        parts.append(f"{now.get('paid', 0):,} of them now")
    if now.get("replayed"):
        parts.append(f"{now['replayed']:,} replayed")
    return " · ".join([*parts, duration(summary.seconds)])


def _how_to_continue(run: Run) -> None:
    if run.reason:
        click.echo(run.reason, err=True)
    unfit = run.summary.failures.get("bad_case", 0)
    if unfit:
        click.echo(f"{unfit:,} documents cannot be asked; `assay check` says why.", err=True)
    if run.summary.infra_error > unfit:
        click.echo(
            f"{run.summary.infra_error - unfit:,} cases got no answer; they will be asked again.", err=True
        )
    command = shlex.join(["assay", *[word for word in run.info.command[1:] if word != "--fresh"]])
    click.echo(f"Nothing is lost. To continue: {command}", err=True)
