"""What makes an output field right, by the rules of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from assay.suites.hop.contract import OutputField
from assay.suites.hop.scorer import OUTSIDE, check_row

BANDS = {"BAD": [1, 2], "MID": [3, 3], "GOOD": [4, 5]}


@pytest.mark.parametrize(
    ("wanted", "actual", "right"),
    [
        (4, 4, True),
        (4, 4.0, True),
        (4, 5, False),
        (4, "4", False),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (True, "True", True),
        (True, "true ", True),
        (False, "False", True),
        (True, "Uncertain", False),
        (True, "1", False),
        ("True", True, False),
        ("a", "a", True),
        (" a", "a\n", True),
        ("a", "A", False),
        ("contains:a", "contains:a", True),
        ("contains:a", "has a", False),
        ("regex:.*", "anything", False),
        ("judge:is it", "no", False),
        ("", "", True),
        ("", " ", True),
        (None, None, True),
        (None, "", False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": " x"}, {"a": "x "}, True),
        ({"a": {"ok": True}}, {"a": {"ok": "True"}}, True),
        ({"a": "contains:x"}, {"a": "axb"}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        (["regex:.*"], ["x"], False),
        ([True, "a "], ["true", " a"], True),
        ({"a": 1}, '{"a": 1}', True),
        ([], [], True),
        ({}, {}, True),
        (10**400, 10**400, True),
        (10**400, 1.5, False),
    ],
)
def test_equality(wanted: Any, actual: Any, right: bool) -> None:
    """Numbers are equal as numbers, truths also as texts, texts without the space around them, at any depth."""
    assert check_row({"f": wanted}, {"f": actual}, {}).correct is right


@pytest.mark.parametrize(
    ("wanted", "actual", "right"),
    [
        ("True", True, True),
        (" true", "True", True),
        ("False", True, False),
        (True, "TRUE ", True),
        ("Uncertain", "Uncertain", True),
        ("Uncertain", False, False),
        (1, True, False),
    ],
)
def test_an_output_that_is_a_truth_may_be_expected_as_a_text(wanted: Any, actual: Any, right: bool) -> None:
    """Where the contract says so: an operator says `"True"`, and so do people who write rows."""
    assert check_row({"f": wanted}, {"f": actual}, {"f": OutputField(type="bool")}).correct is right


@pytest.mark.parametrize(("wanted", "actual"), [(True, True), (True, False), (False, True), (False, False)])
def test_booleans_have_the_same_check_as_booleans_in_a_list(*, wanted: bool, actual: bool) -> None:
    """Booleans are compared in a quicker way than other values. Both ways give the same check and message."""
    (quick,) = check_row({"f": wanted}, {"f": actual}, {}).checks
    (usual,) = check_row({"f": [wanted]}, {"f": [actual]}, {}).checks
    assert quick == replace(usual, path="f")
    text = {True: "true", False: "false"}
    assert quick.why == ("" if wanted is actual else f"expected {text[wanted]}, found {text[actual]}")


@pytest.mark.parametrize("result", [{}, {"g": 1}, None, [1], "text", 3])
def test_a_field_that_is_missing_is_wrong(result: Any) -> None:
    """It is not skipped, and null is not expected where nothing is there."""
    wanted: Any
    for wanted in (1, None, {}, "x"):
        verdict = check_row({"f": wanted}, result, {})
        assert (verdict.correct, [check.kind for check in verdict.checks]) == (False, ["missing"])


def test_nothing_expected_is_neither_right_nor_wrong() -> None:
    """And says so."""
    assert check_row({}, {"f": 1}, {}).correct is None


def test_one_wrong_field_makes_a_row_wrong() -> None:
    """The others are told as right."""
    verdict = check_row({"a": 1, "b": 2}, {"a": 1, "b": 3}, {})
    assert (verdict.correct, [check.passed for check in verdict.checks]) == (False, [True, False])


@pytest.mark.parametrize(
    ("wanted", "actual", "right"),
    [(0.85, 0.9, True), (0.85, 0.91, False), (1, True, False), (1, "1", False), (1e300, -1e300, False)],
)
@pytest.mark.parametrize("compare", ["tolerance", "within"])
def test_near_numbers(compare: str, wanted: Any, actual: Any, right: bool) -> None:
    """Inclusive, in spite of the rounding of floats: 0.9 is within 0.05 of 0.85."""
    fields = {"f": OutputField(type="float", compare=compare, tolerance=0.05, within=0.05)}
    assert check_row({"f": wanted}, {"f": actual}, fields).correct is right


def test_a_tolerance_holds_only_where_it_is_what_makes_it_right() -> None:
    """`compare: equal` beside it wants the same number."""
    fields = {"f": OutputField(type="float", compare="equal", tolerance=1)}
    assert check_row({"f": 1}, {"f": 2}, fields).correct is False


@pytest.mark.parametrize(
    ("wanted", "actual", "bands", "right"),
    [
        (1, 2, ("BAD", "BAD"), True),
        (1, 3, ("BAD", "MID"), False),
        (5, 1, ("GOOD", "BAD"), False),
        (4, 4.5, ("GOOD", "GOOD"), True),
        (4, 9, ("GOOD", OUTSIDE), False),
        (9, 9, (OUTSIDE, OUTSIDE), False),
        (4, "4", ("GOOD", OUTSIDE), False),
        (4, True, ("GOOD", OUTSIDE), False),
    ],
)
def test_bands(wanted: Any, actual: Any, bands: tuple[str, str], right: bool) -> None:
    """Right is the same band; two values outside of all bands have none in common."""
    verdict = check_row({"f": wanted}, {"f": actual}, {"f": OutputField(type="int", compare="bands", bands=BANDS)})
    assert (verdict.bands, verdict.correct) == ({"f": bands}, right)


def test_bands_of_texts_and_truths() -> None:
    """The value is read as it is for equality."""
    fields = {
        "f": OutputField(type="string", compare="bands", bands={"up": ["good", "fine"], "down": ["bad"]}),
        "g": OutputField(type="bool", compare="bands", bands={"yes": [True], "no": [False]}),
    }
    assert check_row({"f": "good ", "g": True}, {"f": " fine", "g": "True"}, fields).correct is True


def test_a_band_may_be_counted_where_equality_decides() -> None:
    """The matrix is there, and the row is wrong."""
    verdict = check_row({"f": 1}, {"f": 2}, {"f": OutputField(type="int", compare="equal", bands=BANDS)})
    assert (verdict.bands, verdict.near, verdict.correct) == ({"f": ("BAD", "BAD")}, {"f": True}, False)


@pytest.mark.parametrize(
    ("result", "near"),
    [({"f": 3}, True), ({"f": 4.0}, True), ({"f": 5}, False), ({"f": "3"}, False), (None, False)],
)
def test_within_one(result: Any, near: bool) -> None:
    """Of every number that is expected: what did not come is not near."""
    assert check_row({"f": 3, "g": "text"}, result, {}).near == {"f": near}
