"""Builds the metrics of a report: a proportion with Wilson's interval, or a mean of clustered values.

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
from assay.scoring.paired import paired
from assay.scoring.statistics import left_sum, wilson

# A standard error below this is 0 apart from rounding.
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
    """Values from 0 to 1, each with the number of its cluster. A value takes sixteen bytes.

    Questions about one conversation are not independent, so the conversation is their cluster. The interval of
    the mean is computed over clusters: more questions about the same conversations hardly narrow it.
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
        # A mean is its difference from a system that always scores 0, so the clustered interval of pairs applies.
        mean = paired(np.zeros(len(values)), values, np.array(self._clusters))
        interval, method = mean.interval, mean.method
        if mean.clusters < 2:
            # One cluster says nothing about how clusters differ.
            interval = None
        elif (mean.stderr is not None and mean.stderr < _ROUNDING) or (
            mean.right_wrong and mean.clusters == mean.n
        ):
            # If all values agree, Student's t interval has no width. Wilson's interval with each cluster as one
            # case is wider than necessary, which is the safe side. If all values are 0 or 1 and every cluster
            # has one value, the mean is an ordinary proportion.
            interval = wilson(mean.difference * mean.clusters, mean.clusters)
            method = "wilson"
        elif interval is not None:
            # Student's t interval of few clusters can exceed the possible values, which are 0 to 1.
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
