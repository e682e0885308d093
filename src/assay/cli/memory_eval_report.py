"""What a memory evaluation shows: six dimensions, who judged them, answers by kind, time and tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from assay.api import Run
from assay.cli.compare import show_scores
from assay.cli.footer import print_footer as closing
from assay.cli.judge_report import say_judge
from assay.cli.memory_report import show_use
from assay.cli.screen import block, table
from assay.core.types import Record, Score
from assay.store.cases import CaseView

_DIMENSIONS = {
    "recall": "memory recall",
    "correctness": "memory correctness",
    "update": "update handling",
    "interference": "interference rejection",
    "answer": "question answering",
    "evidence": "evidence coverage",
}
_BESIDE = {
    "update_recall": "update recall",
    "hallucination": "made-up memories ↓",
    "answer_hallucination": "made-up answers ↓",
    "answer_omission": "omitted answers ↓",
    "retrieved_evidence": "evidence in all retrieved",
    "f1": "token F1",
    "bleu1": "BLEU-1",
}
_MOST_FAILURES, _MOST_CHARACTERS, _MOST_TEXT = 10, 300, 60
Results = dict[str, Any]


def report_memory_eval(run: Run) -> None:
    """Everything a person wants to know when an evaluation ends or is looked at."""
    results = run.summary.results
    if results:
        _judge(results)
        _dimensions(results, _DIMENSIONS, "dimension")
        _dimensions(results, _BESIDE, "beside them")
        for group, title in (("types", "question type"), ("difficulties", "difficulty")):
            _groups(results, group, title)
        show_use(results)
        _failures(results)
        show_scores(run, _compared(results))
    closing(run)


def _judge(results: Results) -> None:
    """Who judged, before any number of theirs."""
    if any("judge" in found for found in results.values()):
        say_judge(results)
    else:
        click.echo("not judged: answers are compared by their words alone")
    click.echo()


def _compared(results: Results) -> dict[str, str]:
    """The six dimensions, thing by thing; without a judge, words."""
    if not any("judge" in found for found in results.values()):
        return {"f1": _BESIDE["f1"]}
    return {**_DIMENSIONS, "evidence": "evidence, mean of questions"}


def _dimensions(results: Results, names: dict[str, str], title: str) -> None:
    rows = [
        [shown, *cells]
        for name, shown in names.items()
        if any(cells := [_cell(_metrics(found).get(name)) for found in results.values()])
    ]
    if rows:
        table([title, *(found["alias"] for found in results.values())], rows)
        click.echo()


def _metrics(found: dict[str, Any]) -> dict[str, Any]:
    return {metric["metric"]: metric for metric in found["metrics"]}


def _cell(metric: dict[str, Any] | None) -> str:
    """`0.812 (0.74–0.88) 29.2/36, 1 invalid`: value, interval, counts; a dash where nothing was judged."""
    if metric is None:
        return ""
    if metric["value"] is None:
        return f"– ({metric['invalid']:,} invalid)" if metric["invalid"] else "–"
    interval = metric["interval"]
    between = f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else ""
    invalid = f", {metric['invalid']:,} invalid" if metric["invalid"] else ""
    return f"{metric['value']:.3f}{between} {_count(metric['numerator'])}/{metric['denominator']:,}{invalid}"


def _count(value: float) -> str:
    return f"{value:,.1f}" if value % 1 else f"{int(value):,}"


def _groups(results: Results, group: str, title: str) -> None:
    """Answers and evidence by kind of question; without a judge, words."""
    rows = [
        [found["alias"], name or "(none)", *(_cell(values.get(metric)) or "–" for metric in _of(found))]
        for found in results.values()
        for name, values in found[group].items()
    ]
    if rows:
        names = {**_DIMENSIONS, **_BESIDE}
        table(
            ["memory", title, *(names[metric] for metric in _of(next(iter(results.values()))))], rows, names=2
        )
        click.echo()


def _of(found: dict[str, Any]) -> tuple[str, ...]:
    return ("answer", "evidence", "f1") if "judge" in found else ("f1", "bleu1")


def _failures(results: Results) -> None:
    """Which samples have no lines, and why."""
    told = [(found["alias"], failure) for found in results.values() for failure in found["failures"]]
    for name, failure in told[:_MOST_FAILURES]:
        said = f"{name}, sample {failure['sample_id']}: {failure['reason']}"
        block(said, indent="", most=_MOST_CHARACTERS)
    if told:
        click.echo(f"and {len(told) - _MOST_FAILURES:,} more\n" if len(told) > _MOST_FAILURES else "")


def show_sample(view: CaseView) -> None:
    """Sessions with what they changed, points with their labels, then question by question."""
    found = {(score.metric, score.part): score for score in view.scores}
    rows = [_session_row(record, found) for record in view.records if record.kind == "session"]
    if rows:
        table(["session", "added", "updated", "gone", "recall", "correctness"], rows)
        click.echo()
    points = [score for score in view.scores if score.metric in ("update", "interference")]
    if points:
        table(["point", "of", "label", "why"], [_point_row(score) for score in points], names=2)
        click.echo()
    answers = [score for score in view.scores if score.metric == "f1"]
    if answers:
        rows = [_answer_row(score, found) for score in answers]
        table(["question", "label", "evidence", "F1", "answer", "reference", "why"], rows)


def _session_row(record: Record, found: dict[tuple[str, str], Score]) -> list[str]:
    ops = Counter(change["op"] for change in record.data["delta"])
    scores = [_score(found.get((metric, record.part))) for metric in ("recall", "correctness")]
    return [record.part, *(str(ops[op]) for op in ("add", "update", "archive")), *scores]


def _point_row(score: Score) -> list[str]:
    return [score.part, score.metric, _label(score), _short(score.reason)]


def _answer_row(score: Score, found: dict[tuple[str, str], Score]) -> list[str]:
    answer, evidence = (found.get((metric, score.part)) for metric in ("answer", "evidence"))
    said = [_short((score.data or {}).get(key, "")) for key in ("answer", "target")]
    why = _short(answer.reason) if answer else ""
    return [score.part, _label(answer), _score(evidence), _score(score), *said, why]


def _label(score: Score | None) -> str:
    if score is None:
        return "–"
    labels = (score.data or {}).get("labels") or [score.status]
    return f"{labels[0]}{_mark(score)}"


def _score(score: Score | None) -> str:
    return "–" if score is None or score.value is None else f"{score.value:.3f}{_mark(score)}"


def _mark(score: Score) -> str:
    """Where votes of the same judge disagreed."""
    return " (flaky)" if (score.data or {}).get("stable") is False else ""


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_TEXT else f"{flat[: _MOST_TEXT - 1]}…"


def show_plan(found: dict[str, Any]) -> None:
    """What would be done, a line each."""
    table(["what", ""], [[name, _plain(value)] for name, value in found.items()])
    click.echo("nothing was asked or written")


def _plain(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
