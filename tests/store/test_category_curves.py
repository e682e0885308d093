"""Curves of one category of questions along the tests of conversations."""

from __future__ import annotations

import pytest

from assay.core.case_details import CurveValue
from assay.core.report import Curve
from assay.core.types import Score
from assay.store.category_curves import OF_TESTS, category_curve
from assay.suites.memory.test.tally import MemoryTally

METRIC = "evidence_recall"
# By conversation: the messages before each of its tests, and by test the values of its questions with their categories.
SHORT = ([2, 4], [[("a", 1.0)], [("a", 0.0), ("b", 1.0)]])
LONG = ([2, 6, 10], [[("b", 1.0)], [("a", 1.0), ("b", 0.0)], [("a", 1.0), ("a", 0.0), ("b", 0.0)]])


def curves_of_report() -> tuple[Curve, Curve]:
    """Return both curves of the report over all categories."""
    tally = MemoryTally("own")
    for number, (after, tests) in enumerate((SHORT, LONG)):
        scores = [
            Score(
                index=number,
                case=f"c{number}",
                set="talks",
                subject="own",
                scorer="memory",
                metric=METRIC,
                value=value,
                part=f"{test}/{question}",
                data={"category": category},
            )
            for test, questions in enumerate(tests, 1)
            for question, (category, value) in enumerate(questions)
        ]
        tally.add_conversation(number, after, [], scores)
    first, second = tally.entry(METRIC, {}, []).curves
    return first, second


def conversations(*, renamed: str = "") -> list[tuple[int, list[CurveValue]]]:
    """Return the values of both conversations. `renamed` is the category of all questions."""
    return [
        (
            number,
            [
                CurveValue(test=test, category=renamed or category, metric=METRIC, value=value)
                for test, questions in enumerate(tests, 1)
                for category, value in questions
            ],
        )
        for number, (_, tests) in enumerate((SHORT, LONG))
    ]


def numbers(curve: Curve) -> list[tuple[float, float | None, int]]:
    return [(point.x, point.metric.value, point.metric.denominator) for point in curve.points]


def test_the_first_curve_keeps_the_last_test_of_a_short_conversation() -> None:
    first, _ = curves_of_report()
    # Test 3 has the questions of the long one (1, 0) and those of the short one's test 2 (0).
    assert numbers(category_curve(conversations(), "a", METRIC, first)) == [
        (2.0, 1.0, 1),
        (5.0, 0.5, 2),
        (7.0, pytest.approx(1 / 3), 3),
    ]


def test_the_second_curve_has_only_the_conversations_that_have_the_test() -> None:
    _, second = curves_of_report()
    assert second.name == f"{METRIC}{OF_TESTS}"
    # Test 3 is asked in the long conversation alone: two questions of category a, one of them right.
    assert numbers(category_curve(conversations(), "a", METRIC, second)) == [
        (2.0, 1.0, 1),
        (5.0, 0.5, 2),
        (10.0, 0.5, 2),
    ]
    assert numbers(category_curve(conversations(), "b", METRIC, second)) == [
        (2.0, 1.0, 1),
        (5.0, 0.5, 2),
        (10.0, 0.0, 1),
    ]


def test_both_curves_of_the_only_category_are_those_of_the_report() -> None:
    for curve in curves_of_report():
        assert category_curve(conversations(renamed="a"), "a", METRIC, curve).points == curve.points


def test_a_category_without_questions_and_a_report_of_other_tests_have_no_values() -> None:
    first, second = curves_of_report()
    for curve in (first, second):
        assert [value for _, value, _ in numbers(category_curve(conversations(), "c", METRIC, curve))] == [None] * 3
    shorter = Curve(name=second.name, x=second.x, points=second.points[1:], title=second.title)
    assert [value for _, value, _ in numbers(category_curve(conversations(), "a", METRIC, shorter))] == [None] * 2
