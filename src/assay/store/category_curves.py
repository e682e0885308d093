"""Curves of one category of questions along the tests of conversations.

The report of a memory test has curves over all questions. This makes the same curves of one category, from the scores
in the journal. In the first curve a conversation with fewer tests is represented by its last test, so every point
covers all conversations. In the second curve, whose name ends in `OF_TESTS`, a point covers only the conversations that
have the test. The third curve, whose name ends in `BY_AGE`, is over the age of the evidence: a point covers all answers
with an age in its span. Intervals are clustered by conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.case_details import CurveValue
from assay.core.report import Curve, Point
from assay.scoring.metric_builders import ClusteredValues

OF_TESTS = "_of_tests"
"""The end of the name of a curve whose points cover only the conversations that have the test."""

BY_AGE = "_by_age"
"""The end of the name of a curve over the age of the evidence."""


def category_curve(
    conversations: Sequence[tuple[int, Sequence[CurveValue]]], category: str, metric: str, along: Curve
) -> Curve:
    """Return the curve of a category. `along` is the report's curve of the same metric: its x values are used.

    Each conversation is its number and its values. A test without a value of the category has a point without a value.
    """
    if along.name.endswith(BY_AGE):
        return _age_curve(conversations, category, metric, along)
    label = along.points[0].metric.label if along.points else ""
    keeps_last = not along.name.endswith(OF_TESTS)
    last_tests = {number: max((value.test for value in values), default=0) for number, values in conversations}
    count = max(last_tests.values(), default=0)
    # By test: the values of the category, and whether the report has a point there. It has one where any category does.
    values_of = {test: ClusteredValues() for test in range(1, count + 1)}
    has_point: set[int] = set()
    for number, values in conversations:
        for value in values:
            if value.metric != metric:
                continue
            is_last = value.test == last_tests[number]
            tests = range(value.test, count + 1) if keeps_last and is_last else (value.test,)
            has_point.update(tests)
            if value.category == category:
                for test in tests:
                    values_of[test].add(value.value, number)
    shown = [values_of[test] for test in sorted(has_point)]
    if len(shown) != len(along.points):
        # The journal and the report differ about the tests, so nothing says to which test a point belongs.
        shown = [ClusteredValues() for _ in along.points]
    points = [
        Point(at.x, clustered.metric(metric, label=label, unit="question"))
        for at, clustered in zip(along.points, shown, strict=True)
    ]
    return Curve(name=along.name, x=along.x, points=points, title=along.title)


def _age_curve(
    conversations: Sequence[tuple[int, Sequence[CurveValue]]], category: str, metric: str, along: Curve
) -> Curve:
    """Return the curve of a category over the age of the evidence, with the spans of the report's curve."""
    points = []
    for at in along.points:
        low, high = at.span or (at.x, at.x)
        values = ClusteredValues()
        for number, own in conversations:
            for value in own:
                fits = value.age is not None and low <= value.age <= high
                if fits and value.metric == metric and value.category == category:
                    values.add(value.value, number)
        shown = values.metric(metric, label=at.metric.label, unit=at.metric.unit)
        points.append(Point(at.x, shown, at.span))
    return Curve(name=along.name, x=along.x, points=points, title=along.title)
