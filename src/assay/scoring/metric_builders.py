"""Builds the metrics of a report: a proportion with Wilson's interval, or a mean of values in clusters.

    proportion_metric("pass_rate", successes=7, total=10, unit="test")

    recall = ClusteredValues()
    recall.add(0.5, cluster=conversation.number)
    recall.metric("recall", unit="question")

Every builder takes the other fields of `Metric` (label, unit, filter, left_out, ...) as keywords.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict, Unpack

from assay.core.report import Metric
from assay.scoring.paired import paired
from assay.scoring.statistics import left_sum, wilson

# What rounding leaves of a standard error that is 0.
_ROUNDING = 1e-12


class MetricFields(TypedDict, total=False):
    """The fields of a metric that its builder does not compute."""

    filter: str
    label: str
    unit: str
    aggregation: str
    higher_is_better: bool | None
    left_out: dict[str, int]
    reason: str
    warning: str
    beside: dict[str, Metric]


def proportion_metric(name: str, successes: float, total: int, **fields: Unpack[MetricFields]) -> Metric:
    """A share of cases with Wilson's interval. Without cases there is no value, not 0."""
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
    """A ratio without an interval. Over nothing it has no value."""
    value = numerator / denominator if denominator else None
    return Metric(name=name, value=value, numerator=numerator, denominator=denominator, **fields)


def mean_metric(name: str, values: Sequence[float], **fields: Unpack[MetricFields]) -> Metric:
    """The mean of numbers of any size, one a case, with Student's t interval. Without cases there is no value."""
    import numpy as np

    if not len(values):
        return Metric(name=name, value=None, denominator=0, **fields)
    numbers = np.array(values, dtype=np.float64)
    mean = paired(np.zeros(len(numbers)), numbers, np.arange(len(numbers)))
    return Metric(
        name=name,
        value=mean.difference,
        numerator=left_sum(values),
        denominator=mean.n,
        stderr=mean.stderr,
        interval=mean.interval,
        interval_method="t" if mean.interval else "",
        **fields,
    )


class ClusteredValues:
    """Shares from 0 to 1, and the cluster of each, in sixteen bytes a value.

    Questions about one conversation are not independent: a mean over them is as sure as its conversations
    allow, and the interval is computed over clusters.
    """

    def __init__(self) -> None:
        self._values = array("d")
        self._clusters = array("q")
        self.left_out: Counter[str] = Counter()

    def __len__(self) -> int:
        """The number of values."""
        return len(self._values)

    def add(self, value: float | str, cluster: int) -> None:
        """Add a value, or the reason why there is none."""
        if isinstance(value, str):
            self.left_out[value] += 1
            return
        self._values.append(value)
        self._clusters.append(cluster)

    def metric(self, name: str, **fields: Unpack[MetricFields]) -> Metric:
        """The mean with its denominator, standard error and interval; no value where there are no values."""
        import numpy as np

        if "left_out" not in fields and self.left_out:
            fields["left_out"] = dict(self.left_out)
        values = np.array(self._values)
        if not len(values):
            return Metric(name=name, value=None, numerator=0.0, denominator=0, clusters=0, **fields)
        mean = paired(np.zeros(len(values)), values, np.array(self._clusters))
        interval, method = mean.interval, mean.method
        if mean.clusters < 2:
            # One cluster says nothing about others.
            interval = None
        elif (mean.stderr is not None and mean.stderr < _ROUNDING) or (
            mean.right_wrong and mean.clusters == mean.n
        ):
            # Where all values agree Student's t would have no width. Counting each cluster as one case errs
            # on the safe side. Right and wrong with one value a cluster is a plain proportion.
            interval = wilson(mean.difference * mean.clusters, mean.clusters)
            method = "wilson"
        elif interval is not None:
            # Every value is a share, but the interval of two clusters can be wider than what is possible.
            interval = type(interval)(max(0.0, interval.low), min(1.0, interval.high))
        return Metric(
            name=name,
            value=mean.difference,
            numerator=left_sum(self._values),
            denominator=mean.n,
            clusters=mean.clusters,
            stderr=mean.stderr,
            interval=interval,
            interval_method=method if interval is not None else "",
            **fields,
        )
