"""Numbers of an imported run that only `summary.json` has: verdicts of a judge, seconds, tokens.

assay writes `summary.json` beside the files of the conversations. Those files have no scores, so the importer scores
the answers again. Where its numbers differ from the summary, or where it cannot compute them, the summary's numbers
stand in the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose, isfinite
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.judges import JudgeInfo
from assay.core.report import Entry, Interval, Metric, Point, Slice
from assay.files.read import convert_json, read_json
from assay.scoring.purpose_table import PurposeNumbers, purpose_tables
from assay.suites.memory.test.scorers import METRICS, metric_label, ordered_metrics
from assay.suites.memory.test.sink import SUMMARY
from assay.suites.memory.test.size import SizeSummary, size_tables
from assay.suites.memory.test.tally import RETRIEVAL_TABLE, age_curves, curves_of, retrieval_tables

# Relative difference that is more than rounding.
_TOLERANCE = 1e-9


class SummaryNumber(Struct, kw_only=True):
    """A metric of the summary. `n` is the denominator; `invalid` and `not_judged` were left out."""

    value: float | None
    n: int
    metric: str = ""
    clusters: int | None = None
    stderr: float | None = None
    interval: Interval | None = None
    invalid: int = 0
    not_judged: int = 0

    def as_metric(self, name: str, unit: str = "question") -> Metric:
        """Return the metric for a report. Its numerator is computed from the value, because the summary has none."""
        left_out = {"invalid": self.invalid, "not_judged": self.not_judged}
        # A file of another program may have NaN for a number that was not measured.
        value = self.value if self.value is not None and isfinite(self.value) else None
        return Metric(
            name=name,
            value=value,
            numerator=None if value is None else round(value * self.n, 9),
            denominator=self.n,
            label=metric_label(name),
            unit=unit,
            table="" if name in METRICS else RETRIEVAL_TABLE,
            left_out={reason: count for reason, count in left_out.items() if count},
            stderr=self.stderr,
            interval=self.interval,
            clusters=self.clusters,
        )


class SummaryFailure(Struct, kw_only=True):
    """A conversation that failed. It has no file."""

    task_id: str
    sample_id: str
    reason: str = ""


SummaryPoints = list[dict[str, float | SummaryNumber]]
"""The points of a curve: its x value under `dialogs_inserted` or `age`, and each metric under its name."""


class SummaryRetention(Struct, kw_only=True):
    """The curve over the age of the evidence."""

    points: SummaryPoints = field(default_factory=list)


class SummaryFile(Struct, kw_only=True):
    """The part of `summary.json` that is read."""

    metrics: list[SummaryNumber]
    counts: dict[str, int]
    memory: str = ""
    alias: str = ""
    reference: bool = False
    model: str | None = None
    top_k: int | None = None
    failures: list[SummaryFailure] = field(default_factory=list)
    categories: dict[str, dict[str, SummaryNumber]] = field(default_factory=dict)
    category_labels: dict[str, str] = field(default_factory=dict)
    tests: SummaryPoints = field(default_factory=list)
    curve: SummaryPoints = field(default_factory=list)
    retention: SummaryRetention | None = None
    size: SizeSummary | None = None
    stages: dict[str, PurposeNumbers] = field(default_factory=dict)
    judge: JudgeInfo | None = None


def read_summary(folder: Path) -> SummaryFile | None:
    """Return the summary of a folder. None if there is none, or if another program or an unfinished run wrote it."""
    path = folder / SUMMARY
    if not path.is_file():
        return None
    value = read_json(path)
    if not isinstance(value, dict) or not {"metrics", "counts"} <= value.keys():
        return None
    return convert_json(value, SummaryFile, str(path))


def with_summary(
    entry: Entry,
    summary: SummaryFile,
    headline: str | None,
    notices: list[str],
    retrieval: Sequence[str] = (),
) -> Entry:
    """Return an entry of the report completed by the summary. A number that differs is named in `notices`.

    `retrieval` are the columns of the table of retrieval metrics.
    """
    own = {metric.name: metric for metric in entry.metrics}
    numbers = {each.metric: each for each in summary.metrics}
    differing = [name for name, metric in own.items() if name in numbers and not _equal(metric, numbers[name])]
    notices += [
        f"{entry.title}: {SUMMARY} has {name} {_text(numbers[name].value)} of {numbers[name].n:,}, the "
        f"conversations give {_text(own[name].value)} of {own[name].denominator:,}; "
        f"the report has the numbers of {SUMMARY}"
        for name in differing
    ]
    slices = []
    for group in entry.slices:
        group_numbers = summary.categories.get(group.name, {})
        metrics = [each for each in _merged(group.metrics, group_numbers) if each.name in METRICS]
        slices.append(replace(group, metrics=metrics))
    listed = {group.name for group in entry.slices}
    for name, group_numbers in summary.categories.items():
        if name not in listed:
            metrics = [group_numbers[metric].as_metric(metric) for metric in METRICS if metric in group_numbers]
            label = summary.category_labels.get(name, "")
            slices.append(Slice(by="category", name=name, label=label, metrics=metrics))
    # Curves are made of the headline metric. The summary has the same points for every metric.
    curves = entry.curves
    if headline is not None and (headline not in own or headline in differing):
        curves = curves_of(headline, _points(summary.curve, headline), _points(summary.tests, headline))
        if summary.retention is not None:
            curves += age_curves(headline, _points(summary.retention.points, headline, "age"))
    counts = dict(entry.counts)
    for name in ("without_evidence", "unknown_places"):
        if summary.counts.get(name):
            counts[name] = summary.counts[name]
    for own_name, name in (("conversations", "conversations"), ("failed", "failed"), ("asked", "answers")):
        in_summary, in_files = summary.counts.get(name, 0), counts.get(own_name, 0)
        if in_summary != in_files:
            notices.append(f"{entry.title}: {SUMMARY} counts {in_summary:,} {name}, the files have {in_files:,}")
    merged = _merged(entry.metrics, numbers)
    by_name = {metric.name: metric for metric in merged}
    tables = {
        table.name: table
        for table in (
            *retrieval_tables(by_name, retrieval),
            *purpose_tables(summary.stages),
            *size_tables(summary.size),
        )
    }
    tables |= {table.name: table for table in entry.tables if table.name not in tables}
    return replace(
        entry,
        metrics=merged,
        slices=sorted(slices, key=lambda group: group.name),
        curves=curves,
        counts=counts,
        tables=list(tables.values()),
        judges=[summary.judge] if summary.judge else [],
    )


def _equal(metric: Metric, number: SummaryNumber) -> bool:
    if metric.value is None or number.value is None:
        return metric.value is number.value and metric.denominator == number.n
    close = isclose(metric.value, number.value, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return close and metric.denominator == number.n


def _merged(own: list[Metric], numbers: Mapping[str, SummaryNumber]) -> list[Metric]:
    """Return the metrics of both in the order of the tables. A computed metric that agrees is the more precise one."""
    computed = {metric.name: metric for metric in own}
    merged = []
    for name in ordered_metrics({*computed, *numbers}):
        metric, number = computed.get(name), numbers.get(name)
        if number is not None and (metric is None or not _equal(metric, number)):
            metric = number.as_metric(name)
        if metric is not None:
            merged.append(metric)
    return merged


def _points(points: SummaryPoints, metric: str, x: str = "dialogs_inserted") -> list[Point]:
    listed = []
    for point in points:
        place, number = point.get(x), point.get(metric)
        low, high = point.get("age_from"), point.get("age_to")
        span = (low, high) if isinstance(low, float) and isinstance(high, float) else None
        if isinstance(place, float) and isinstance(number, SummaryNumber):
            unit = "answer" if span else "question"
            listed.append(Point(place, number.as_metric(metric, unit), span))
    return listed


def _text(value: float | None) -> str:
    return "no value" if value is None else f"{value:.6g}"
