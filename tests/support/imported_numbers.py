"""The numbers of a report that an imported run shares with the native run of the same data."""

from __future__ import annotations

import json
from typing import Any

from msgspec import to_builtins

import assay
from assay.core.report import Entry, Metric

# Not among them: how an interval was computed, which no result file tells.
COMPARED = (
    *("value", "numerator", "denominator", "left_out", "stderr", "interval", "clusters"),
    *("unit", "label", "higher_is_better", "reason"),
)


def entries(run: assay.Run) -> dict[str, dict[str, Any]]:
    """Return the entries of a report by name, in a form that `==` compares to nine digits."""
    assert run.report is not None
    return {entry.name: _entry(entry) for entry in run.report.entries}


def numbers(metrics: list[Metric]) -> dict[str, dict[str, Any]]:
    """Return metrics by name, with their variants."""
    by_name: dict[str, dict[str, Any]] = {}
    for metric in metrics:
        values = {key: to_builtins(getattr(metric, key)) for key in COMPARED}
        by_name[metric.name] = json.loads(json.dumps(values), parse_float=lambda text: round(float(text), 9))
        by_name[metric.name]["beside"] = {name: numbers([each]) for name, each in metric.beside.items()}
    return by_name


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "name": (entry.name, entry.title, entry.reference),
        "metrics": numbers(entry.metrics),
        "slices": {(each.by, each.name, each.title): numbers(each.metrics) for each in entry.slices},
        "curves": [
            (each.name, each.title, [(point.x, numbers([point.metric])) for point in each.points])
            for each in entry.curves
        ],
        "counts": entry.counts,
        "tables": to_builtins(entry.tables),
        "judges": to_builtins(entry.judges),
    }
