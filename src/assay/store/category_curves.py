"""Curves of one category of questions along the tests of conversations.

The report of a memory test has curves over all questions. This makes the same curves of one category, from the scores
in the journal: a conversation with fewer tests is represented by its last test, so every point covers all
conversations. Intervals are clustered by conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.core.case_details import CurveValue
from assay.core.report import Curve, Metric, Point
from assay.scoring.metric_builders import ClusteredValues


def category_curve(
    conversations: Iterable[tuple[int, Sequence[CurveValue]]], category: str, metric: str, along: Curve
) -> Curve:
    """Return the curve of a category. `along` is the report's curve of the same metric: its x values are used.

    Each conversation is its number and its values. A test without a value of the category has a point without a value.
    """
    label = along.points[0].metric.label if along.points else ""
    points_of: list[ClusteredValues] = [ClusteredValues() for _ in along.points]
    for number, values in conversations:
        last = max((value.test for value in values), default=0)
        own: dict[int, list[CurveValue]] = {}
        for value in values:
            if value.category == category and value.metric == metric:
                own.setdefault(value.test, []).append(value)
        for test, clustered in enumerate(points_of, 1):
            for value in own.get(min(test, last), ()):
                clustered.add(value.value, number)
    points = []
    for at, clustered in zip(along.points, points_of, strict=True):
        measured: Metric = clustered.metric(metric, label=label, unit="question")
        points.append(Point(at.x, measured))
    return Curve(name=along.name, x=along.x, points=points, title=along.title)
