"""Builds the metrics of a report: a proportion, a mean of numbers, or a mean of clustered shares.

    proportion_metric("pass_rate", successes=7, total=10, unit="test")

    recall = ClusteredValues()
    recall.add(0.5, cluster=conversation.number)
    recall.metric("recall", unit="question")

Every builder accepts the other fields of `Metric` (label, unit, filter, left_out, ...) as keyword arguments.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict, Unpack

from assay.core.report import Metric
from assay.scoring.intervals import cluster_sample, few_clusters, mean_bounds, wilson
from assay.scoring.statistics import left_sum


class MetricFields(TypedDict, total=False):
    """The fields of a metric that its builder does not compute."""

    filter: str
    label: str
    unit: str
    table: str
    aggregation: str
    higher_is_better: bool | None
    left_out: dict[str, int]
    reason: str
    warning: str
    beside: dict[str, Metric]


def proportion_metric(name: str, successes: float, total: int, **fields: Unpack[MetricFields]) -> Metric:
    """Return a proportion with Wilson's interval. Without cases its value is None, not 0."""
    if not total:
        return Metric(name=name, value=None, numerator=0, denominator=0, **fields)
    return Metric(
        name=name,
        value=successes / total,
        numerator=successes,
        denominator=total,
        interval=wilson(successes, total),
        interval_method="wilson",
        **fields,
    )


def ratio_metric(name: str, numerator: float, denominator: int, **fields: Unpack[MetricFields]) -> Metric:
    """Return a ratio without an interval. Its value is None if the denominator is 0."""
    value = numerator / denominator if denominator else None
    return Metric(name=name, value=value, numerator=numerator, denominator=denominator, **fields)


def mean_metric(
    name: str, values: Sequence[float], *, right_wrong: bool = False, **fields: Unpack[MetricFields]
) -> Metric:
    """Return the mean of independent numbers, one a case. Without cases it has no value.

    `right_wrong` declares that a value is 1 for right, 0 for wrong, or the share of a case's repeats that are right.
    The interval is then that of a proportion. Numbers of any other scale have an interval by their own spread, also
    if they happen to lie between 0 and 1; there is none if they are all equal, or if there is only one.
    """
    import numpy as np

    if right_wrong and all(value in (0, 1) for value in values):
        return proportion_metric(name, sum(values), len(values), **fields)
    if not len(values):
        return Metric(name=name, value=None, denominator=0, **fields)
    numbers = np.array(values, dtype=np.float64)
    sample = cluster_sample(numbers)
    is_share = right_wrong and bool(((numbers >= 0) & (numbers <= 1)).all())
    bounds = mean_bounds(sample, right_wrong=False, is_share=is_share)
    return Metric(
        name=name,
        value=sample.mean,
        numerator=left_sum(values),
        denominator=sample.n,
        stderr=sample.stderr,
        interval=bounds.interval,
        interval_method=bounds.method,
        **fields,
    )


def undeclared_warning(values: Sequence[float], declaration: str) -> str:
    """Return what to declare about a mean of numbers that are all 0 or 1; "" for other numbers.

    They may be right and wrong answers, whose interval is another one. Only the author of the metric knows.
    """
    if not len(values) or not all(value in (0, 1) for value in values):
        return ""
    return (
        "each value is 0 or 1. If 1 means right and 0 wrong, return True and False or declare "
        f"{declaration}, for the interval of a proportion"
    )


class ClusteredValues:
    """Values from 0 to 1, each with the number of its cluster. A value takes sixteen bytes.

    Questions about one conversation are not independent, so the conversation is their cluster. The interval of
    the mean is computed over clusters: more questions about the same conversations hardly narrow it. With too few
    clusters the metric has a warning.
    """

    def __init__(self) -> None:
        self._values = array("d")
        self._clusters = array("q")
        self.left_out: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def add(self, value: float | str, cluster: int) -> None:
        """Add a value, or a text with the reason why there is none; reasons are counted in `left_out`."""
        if isinstance(value, str):
            self.left_out[value] += 1
            return
        self._values.append(value)
        self._clusters.append(cluster)

    def metric(self, name: str, **fields: Unpack[MetricFields]) -> Metric:
        """Return the mean with denominator, standard error and interval. Without values it is None."""
        import numpy as np

        if "left_out" not in fields and self.left_out:
            fields["left_out"] = dict(self.left_out)
        values = np.array(self._values)
        if not len(values):
            return Metric(name=name, value=None, numerator=0.0, denominator=0, clusters=0, **fields)
        sample = cluster_sample(values, np.array(self._clusters))
        right_wrong = bool(((values == 0) | (values == 1)).all())
        bounds = mean_bounds(sample, right_wrong=right_wrong, is_share=True)
        few = few_clusters(sample, is_share=True)
        if few:
            fields["warning"] = few
        return Metric(
            name=name,
            value=sample.mean,
            numerator=left_sum(self._values),
            denominator=sample.n,
            clusters=sample.clusters,
            stderr=sample.stderr,
            interval=bounds.interval,
            interval_method=bounds.method,
            few_clusters=bool(few),
            **fields,
        )
