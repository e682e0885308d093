"""Reports of suites that still write a dict of results into `summary.json`. Goes when none does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.report import Entry, Metric, Report
from assay.journal.folder import RunInfo, Summary
from assay.store.judges import judges_in


def report_of(summary: Summary) -> Report:
    """The report of a run; empty where it has none, because it stopped."""
    if summary.report is not None:
        return summary.report
    entries = []
    for name, result in summary.results.items():
        if isinstance(result, Mapping):
            metrics = [_metric(metric) for metric in result.get("metrics", ())]
            entries.append(
                Entry(
                    name=name,
                    reference=bool(result.get("reference")),
                    metrics=metrics,
                    judges=judges_in({name: result}),
                )
            )
    return Report(entries=entries)


def parts_are_filters(info: RunInfo, summary: Summary) -> bool:
    """Whether `Score.part` is the name of a filter in this run."""
    if summary.report is not None:
        return info.score_parts == "filters"
    return any(metric.filter for _, metric in report_of(summary).metrics())


def _metric(metric: Mapping[str, Any]) -> Metric:
    return Metric(
        name=metric["metric"],
        value=metric.get("value"),
        denominator=metric.get("denominator") or 0,
        filter=metric.get("filter", ""),
        aggregation=metric.get("aggregation", "mean"),
        higher_is_better=metric.get("higher_is_better", True),
    )
