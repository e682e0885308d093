"""The numbers of a task's metric: the interval follows from what the metric declares, not from its values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from assay.core.imported import UNPLACED
from assay.core.types import Score
from assay.scoring.intervals import wilson
from assay.suites.task.metrics import TaskMetric
from assay.suites.task.scorer import scored_value
from assay.suites.task.tally import MetricResult, MetricScores, report_metric


def result_of(metric: TaskMetric, values: list[Any]) -> MetricResult:
    """Return the number that a report shows for these values of documents."""
    scores = MetricScores("none", metric)
    for value in values:
        scored = scored_value(metric, value, {})
        scores.add(Score(*UNPLACED, scorer="s", metric=metric.name, value=scored.value, data=scored.data or None))
    return scores.result(100, Counter())


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        pytest.param(TaskMetric("acc", right_wrong=True), [1.0, 0.0, 0.0], "wilson", id="declared"),
        pytest.param(TaskMetric("acc", right_wrong=True), [0.0] * 15, "wilson", id="declared, all wrong"),
        pytest.param(TaskMetric("own"), [True, False, True], "wilson", id="bools"),
        pytest.param(TaskMetric("own"), [False] * 15, "wilson", id="bools, all wrong"),
        pytest.param(TaskMetric("rouge2_diff"), [0.0] * 15, "", id="differences that are all 0"),
        pytest.param(TaskMetric("secs"), [0.5] * 15, "", id="seconds that are all equal"),
        pytest.param(TaskMetric("score100"), [0, 1, 0, 1], "t", id="low points of 100"),
        pytest.param(TaskMetric("delta"), [0.0, 1.0, 0.5], "t", id="differences from 0 to 1"),
    ],
)
def test_only_a_declared_metric_has_the_interval_of_a_proportion(
    metric: TaskMetric, values: list[Any], expected: str
) -> None:
    result = result_of(metric, values)
    assert result.interval_method == expected
    if expected == "wilson":
        assert result.interval == wilson(sum(values), len(values))
        assert result.numerator == sum(values)
    else:
        assert result.numerator is None


@pytest.mark.parametrize(
    ("metric", "values", "is_told"),
    [
        pytest.param(TaskMetric("own"), [1.0, 0.0, 1.0], True, id="numbers"),
        pytest.param(TaskMetric("own"), [1] * 15, True, id="numbers, all right"),
        pytest.param(TaskMetric("own"), [True, False], False, id="bools"),
        pytest.param(TaskMetric("own", right_wrong=True), [1.0, 0.0], False, id="declared"),
        pytest.param(TaskMetric("own", higher_is_better=False), [1.0, 0.0], False, id="1 is worse than 0"),
        pytest.param(TaskMetric("own"), [1.0, 0.0, 0.5], False, id="another number"),
    ],
)
def test_who_returns_only_0_and_1_is_told_what_to_declare(metric: TaskMetric, values: list[Any], is_told: bool) -> None:
    """Nothing is guessed, but the most usual metric of one's own must not lose its interval without a word."""
    warning = report_metric(result_of(metric, values)).warning
    assert ("right_wrong: true in metric_list" in warning) is is_told


def test_the_interval_of_other_numbers_follows_from_their_spread() -> None:
    narrow = result_of(TaskMetric("delta"), [0.4, 0.5, 0.5, 0.6])
    wide = result_of(TaskMetric("delta"), [-3.0, 0.0, 1.0, 4.0])
    assert narrow.value == wide.value == 0.5
    assert narrow.interval is not None
    assert wide.interval is not None
    assert narrow.interval.high - narrow.interval.low < 0.3
    assert wide.interval.low < -3
