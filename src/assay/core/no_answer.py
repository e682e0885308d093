"""Takes the numbers out of a report that no answer stands behind.

An error counts as a wrong answer, so a subject whose every answer is an error would have 0.000 in every metric: the
best value where lower is better, and the same as a model that answers and is always wrong.

    leave_out_unanswered(report, CaseCounts(total=4, ok=0))
    str(report.entries[0].metrics[0])           # "exact_match – n=0, left out: 4 no answer"
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.report import AnswerCount, CaseCounts, Entry, Metric, Report

# `AnswerCount.lacks` of a memory whose every search failed.
SEARCH_RESULT = "a search result"


def leave_out_unanswered(report: Report, cases: CaseCounts) -> None:
    """Set the metrics of each entry without any answer to None. A group is left out if no entry has an answer.

    Metrics in `AnswerCount.apart` stay: they measure something else than answers.
    """
    whole = report.answers(cases)
    for entry in report.entries:
        answered = entry.answered or whole
        if answered.total and not answered.count:
            _leave_out(entry, answered)


def is_measured(report: Report, set_: str, subject: str, metric: str) -> bool:
    """Return whether the scores of a metric stand on any answer of this set and subject."""
    for entry in report.entries:
        answered = entry.answered
        if answered is None or entry.set not in ("", set_) or entry.subject not in ("", subject):
            continue
        if answered.total and not answered.count:
            return metric in answered.apart
    return True


def has_no_answer(report: Report, cases: CaseCounts) -> AnswerCount | None:
    """Return the counts of a run without any answer; None if it has one, or no cases."""
    whole = report.answers(cases)
    return whole if whole.total and not whole.count else None


def _leave_out(entry: Entry, answered: AnswerCount) -> None:
    entry.metrics = _metrics(entry.metrics, answered)
    for part in entry.slices:
        part.metrics = _metrics(part.metrics, answered)
    for curve in entry.curves:
        curve.points = [replace(point, metric=_metric(point.metric, answered)) for point in curve.points]
    for table in entry.tables:
        table.rows = [
            [_metric(cell, answered) if isinstance(cell, Metric) else cell for cell in row] for row in table.rows
        ]


def _metrics(metrics: Sequence[Metric], answered: AnswerCount) -> list[Metric]:
    return [_metric(metric, answered) for metric in metrics]


def _metric(metric: Metric, answered: AnswerCount) -> Metric:
    if metric.name in answered.apart or not metric.denominator:
        return metric
    left_out = dict(metric.left_out)
    why = answered.left_out_as
    left_out[why] = left_out.get(why, 0) + metric.denominator
    return Metric(
        name=metric.name,
        value=None,
        denominator=0,
        filter=metric.filter,
        label=metric.label,
        unit=metric.unit,
        aggregation=metric.aggregation,
        higher_is_better=metric.higher_is_better,
        left_out=left_out,
        reason=answered.none_answered,
        beside={name: _metric(each, answered) for name, each in metric.beside.items()},
    )
