"""Reads `aggregate_metrics.json` of any tool, and compares it with the numbers of the record files."""

from __future__ import annotations

from math import isclose
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.report import Entry, Metric
from assay.files.read import convert_json, read_json, without_nan
from assay.suites.memory.eval.output_files import AGGREGATE
from assay.suites.memory.eval.scorers import (
    ANSWER,
    CORRECTNESS,
    EVIDENCE,
    HALLUCINATION,
    INTERFERENCE,
    RECALL,
    UPDATE,
    UPDATE_RECALL,
)
from assay.suites.memory.eval.tally import ANSWER_MADE_UP, ANSWER_OMITTED, JUDGED, DimensionTally

# Other tools round: the examples of the format have two digits, most files four.
_TOLERANCE = 5e-5
# Section, key of the value and key of the denominator of each metric.
_PLACES = {
    RECALL: ("memory_recall", "avg_recall", "num_sessions_with_recall"),
    UPDATE_RECALL: ("memory_recall", "avg_update_recall", "num_sessions_with_update"),
    CORRECTNESS: ("memory_correctness", "avg_correctness", "num_sessions"),
    HALLUCINATION: ("memory_correctness", "avg_hallucination", "num_sessions"),
    UPDATE: ("update_handling", "score", "num_total"),
    INTERFERENCE: ("interference_rejection", "score", "num_total"),
    ANSWER: ("question_answering", "correct_ratio", "num_valid"),
    ANSWER_MADE_UP: ("question_answering", "hallucination_ratio", "num_valid"),
    ANSWER_OMITTED: ("question_answering", "omission_ratio", "num_valid"),
    EVIDENCE: ("evidence_coverage", "hit_rate", "num_total"),
}


class AggregateFile(Struct, kw_only=True):
    """The six dimensions. Tools add keys of their own."""

    baseline_id: str = ""
    memory_recall: dict[str, Any] = field(default_factory=dict)
    memory_correctness: dict[str, Any] = field(default_factory=dict)
    update_handling: dict[str, Any] = field(default_factory=dict)
    interference_rejection: dict[str, Any] = field(default_factory=dict)
    question_answering: dict[str, Any] = field(default_factory=dict)
    evidence_coverage: dict[str, Any] = field(default_factory=dict)

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics that were measured, by name. The format writes 0.0 for a metric with denominator 0."""
        sections = {
            "memory_recall": self.memory_recall,
            "memory_correctness": self.memory_correctness,
            "update_handling": self.update_handling,
            "interference_rejection": self.interference_rejection,
            "question_answering": self.question_answering,
            "evidence_coverage": self.evidence_coverage,
        }
        metrics = {}
        for name, (section, value_key, count_key) in _PLACES.items():
            value, count = sections[section].get(value_key), sections[section].get(count_key)
            if isinstance(value, (int, float)) and isinstance(count, int) and 0 < count < 1 << 53:
                # A tally without values has the label, unit and direction of its metric.
                empty = replace(DimensionTally(name).metric(), beside={}, clusters=None)
                numerator = round(value * count, 9)
                metrics[name] = replace(empty, value=float(value), numerator=numerator, denominator=count)
        return metrics


def read_aggregate(path: Path) -> AggregateFile:
    """Return the aggregate of a file. Raises InputError if it is broken."""
    return convert_json(without_nan(read_json(path)), AggregateFile, str(path))


def fill_aggregate(aggregate: dict[str, Any], entry: Entry) -> None:
    """Put the numbers of a report into the content of an aggregate file. Numbers that it lacks stay as they are."""
    for name, (section, value_key, count_key) in _PLACES.items():
        metric = entry.metric(name)
        if metric is not None and metric.value is not None:
            aggregate[section] |= {value_key: metric.value, count_key: _count(metric, count_key)}


def with_aggregate(entry: Entry, aggregate: AggregateFile, notices: list[str]) -> Entry:
    """Return an entry completed by the aggregate file. A number that differs from the records is named in `notices`."""
    in_file = aggregate.metrics()
    own = {metric.name: metric for metric in entry.metrics}
    merged = []
    for name in [*JUDGED, *(name for name in own if name not in JUDGED)]:
        metric, other = own.get(name), in_file.get(name)
        if metric is not None and metric.value is not None:
            if other is not None and other.value is not None and not _agree(metric, other):
                notices.append(
                    f"{entry.title}: {AGGREGATE} has {name} {other.value:g} of {other.denominator:,}, its records give "
                    f"{metric.value:.6g} of {metric.denominator:,}; the report has the numbers of the records"
                )
            merged.append(metric)
        elif other is not None:
            merged.append(other)
        elif metric is not None:
            merged.append(metric)
    return replace(entry, metrics=merged)


def _agree(metric: Metric, other: Metric) -> bool:
    assert metric.value is not None
    assert other.value is not None
    close = isclose(metric.value, other.value, abs_tol=_TOLERANCE)
    return close and other.denominator in (metric.denominator, _count(metric, "num_total"))


def _count(metric: Metric, key: str) -> int:
    """Return the count of a metric under a key of the format: `num_total` includes the invalid verdicts."""
    return metric.denominator + (metric.left_out.get("invalid", 0) if key == "num_total" else 0)
