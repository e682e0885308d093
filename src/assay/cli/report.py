"""The end of a run on the screen: scores with their intervals, what was left out, where the files are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from assay.api import Run
from assay.cli.footer import print_footer as closing
from assay.cli.judge_report import say_judge
from assay.cli.screen import counted, number, table


def report(run: Run) -> None:
    """Everything a person wants to know when a run ends or is looked at."""
    if run.summary.results:
        score_table(run.summary.results)
        _below_the_table(run)
        say_judge(run.results)
        click.echo()
    closing(run)


def score_table(results: dict[str, Any]) -> None:
    """One line for each task, filter and metric; the members of a group stand below it."""
    rows = [
        _row(f"{'  ' * depth}{results[name].get('alias', name)}", metric)
        for name, depth in _nested(results)
        for metric in results[name]["metrics"]
    ]
    table(["task", "filter", "metric", "value", "stderr", "95% interval", "n", "left out"], rows, names=3)


def _nested(results: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Every name with its depth: after its group, or at the margin; once, though two groups have it."""
    inside = {member for found in results.values() for member in found.get("group", ())}
    seen: set[str] = set()

    def below(name: str, depth: int) -> Iterator[tuple[str, int]]:
        if name in results and name not in seen:
            seen.add(name)
            yield name, depth
            for member in results[name].get("group", ()):
                yield from below(member, depth + 1)

    for name in results:
        if name not in inside:
            yield from below(name, 0)


def _row(name: str, metric: dict[str, Any]) -> list[str]:
    interval = metric["interval"]
    shown = f"{interval[0]:.4f} – {interval[1]:.4f}" if interval else ""
    count = f"{metric['numerator']:,}/{metric['n']:,}" if "numerator" in metric else f"{metric['n']:,}"
    left_out = ", ".join(f"{count} {why}" for why, count in metric.get("left_out", {}).items())
    value, error = number(metric["value"]), number(metric["stderr"])
    return [
        name,
        metric["filter"],
        metric["metric"],
        value,
        error,
        shown,
        count,
        left_out,
    ]


def _below_the_table(run: Run) -> None:
    """What a table has no room for: repeats, and numbers that could not be made."""
    invalid = 0
    for name, found in run.summary.results.items():
        _show_repeats(found.get("alias", name), found.get("repeats", {}))
        for metric in found["metrics"]:
            invalid += metric.get("left_out", {}).get("invalid", 0)
            if "reason" in metric:
                click.echo(f"{name} {metric['metric']},{metric['filter']}: {metric['reason']}")
    if invalid:
        told = counted(invalid, "score is", "scores are")
        click.echo(f"{told} invalid; why: assay show {run.folder} --failed")


def _show_repeats(name: str, curves: dict[str, Any]) -> None:
    """`pass@1 0.41 @2 0.55` and `maj@1 0.41 @2 0.41`; filters that read the same answers share them."""
    named: dict[str, list[str]] = {}
    for part, curve in curves.items():
        shown = "\n".join(f"  {_curve(kind, curve[f'{kind}@k'])}" for kind in ("pass", "maj"))
        named.setdefault(f"{curve['metric']} of {curve['docs']:,} cases\n{shown}", []).append(part)
    for shown, parts in named.items():
        click.echo(f"{name}, {' and '.join(parts)}: {shown}")


def _curve(kind: str, values: list[float]) -> str:
    """At powers of two, and at the end."""
    ks = [k for k in range(1, len(values) + 1) if k & (k - 1) == 0 or k == len(values)]
    return kind + " ".join(f"@{k} {values[k - 1]:.4f}" for k in ks)
