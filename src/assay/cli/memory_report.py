"""What a memory test shows: its scores, a curve for each memory, categories, time and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import click

from assay.api import Run
from assay.cli.compare import show_scores
from assay.cli.footer import print_footer as closing
from assay.cli.judge_report import say_judge
from assay.cli.screen import block, table
from assay.core.chart import sparkline
from assay.store.cases import CaseView

_MOST_FAILURES, _MOST_CHARACTERS, _MOST_FOUND, _MOST_ANSWER = 10, 300, 4, 60
_NAMES = {
    "judged": "judged right",
    "f1": "token F1",
    "exact_match": "exact",
    "evidence_recall": "evidence",
    "abstention": "abstained",
}


def report_memory_test(run: Run) -> None:
    """Everything a person wants to know when a test ends or is looked at."""
    results = run.summary.results
    if results:
        names = [name for name in _NAMES if any(_has(found, name) for found in results.values())]
        _scores(results, names)
        _judge(results)
        _curves(results, names)
        _categories(results, names)
        show_use(results)
        _failures(results)
        show_scores(run, _NAMES)
    closing(run)


def _has(found: dict[str, Any], name: str) -> bool:
    return any(metric["metric"] == name for metric in found["metrics"])


def _scores(results: dict[str, Any], names: list[str]) -> None:
    rows = [[found["alias"], *_row(_by_name(found), names), *_counts(found)] for found in results.values()]
    table(["memory", *map(_NAMES.__getitem__, names), "conversations", "asked", "errors"], rows)
    click.echo()


def _judge(results: dict[str, Any]) -> None:
    """Who judged, and how good that judge is, below its numbers."""
    if any("judge" in found for found in results.values()):
        say_judge(results)
        click.echo()


def _by_name(found: dict[str, Any]) -> dict[str, Any]:
    return {metric["metric"]: metric for metric in found["metrics"]}


def _row(values: dict[str, Any], names: list[str]) -> list[str]:
    return [_value(values.get(name)) for name in names]


def _value(found: dict[str, Any] | None) -> str:
    """`0.512 (0.48–0.54) 1,540`: the value, its interval, how many questions it is of, what was left out."""
    if not found:
        return "–"
    left_out = "".join(
        f", {found[key]:,} {key.replace('_', ' ')}" for key in ("invalid", "not_judged") if found.get(key)
    )
    if found["value"] is None:
        return f"–{left_out}"
    interval = found["interval"]
    between = f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else ""
    return f"{found['value']:.3f}{between} {found['n']:,}{left_out}"


def _counts(found: dict[str, Any]) -> list[str]:
    counts = found["counts"]
    failed = f" ({counts['failed']:,} failed)" if counts["failed"] else ""
    return [f"{counts['conversations']:,}{failed}", f"{counts['answers']:,}", f"{counts['errors']:,}"]


def _curves(results: dict[str, Any], names: list[str]) -> None:
    """The first score that there is, test by test."""
    name = names[0] if names else ""
    rows = []
    for found in results.values():
        values = [(point.get(name) or {}).get("value") for point in found["curve"]]
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
        label = found["category_labels"].get(category)
        yield [found["alias"], f"{label} ({category})" if label else category, *_row(values, names)]


def _failures(results: dict[str, Any]) -> None:
    """Which conversations have no file, and why."""
    told = [(found["alias"], failure) for found in results.values() for failure in found["failures"]]
    for name, failure in told[:_MOST_FAILURES]:
        block(
            f"{name}, conversation {failure['task_id']} ({failure['sample_id']}): {failure['reason']}",
            indent="",
            most=_MOST_CHARACTERS,
        )
    if told:
        click.echo(f"and {len(told) - _MOST_FAILURES:,} more\n" if len(told) > _MOST_FAILURES else "")


def show_tests(view: CaseView) -> None:
    """Each test of a conversation with its means, then the last one question by question."""
    answers = [record.data for record in view.records if record.kind == "answer"]
    last = max((said["test"] for said in answers), default=0)
    values: dict[tuple[str, str], float | None] = {(s.part, s.metric): s.value for s in view.scores}
    names = [name for name in _NAMES if any(metric == name for _, metric in values)]
    shown = list(map(_NAMES.__getitem__, names))
    tests = [[str(test), *_means(values, names, test)] for test in range(1, last + 1)]
    if tests:
        table(["test", *shown], tests)
        click.echo()
    rows = []
    for said in sorted(answers, key=lambda said: int(said["question"])):
        if said["test"] == last:
            part = f"{last}/{said['question']}"
            scores = [_plain(values.get((part, name))) for name in names]
            found = [one[0] for one in said["found"]]
            more = f" and {len(found) - _MOST_FOUND:,} more" if len(found) > _MOST_FOUND else ""
            rows.append(
                [str(said["question"]), *scores, ", ".join(found[:_MOST_FOUND]) + more, _answer(said)]
            )
    if rows:
        table(["question", *shown, "found", "answer"], rows)


def _means(values: dict[tuple[str, str], float | None], names: list[str], test: int) -> list[str]:
    means = []
    for name in names:
        found = [
            value
            for (part, metric), value in values.items()
            if value is not None and metric == name and part.partition("/")[0] == str(test)
        ]
        means.append(f"{fmean(found):.3f} of {len(found):,}" if found else "–")
    return means


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _answer(said: dict[str, Any]) -> str:
    text = f"error: {said['error']}" if "error" in said else said["answer"]
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_ANSWER else f"{flat[: _MOST_ANSWER - 1]}…"


def show_use(results: dict[str, Any]) -> None:
    """Seconds and tokens by memory and stage, where anything was done."""
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
