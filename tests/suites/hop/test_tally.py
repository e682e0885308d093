"""The numbers of a batch, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from assay.suites.hop.contract import OutputField
from assay.suites.hop.scorer import RowVerdict, check_row
from assay.suites.hop.tally import HopTally, RowResult, error_kind

from support.hop_batch import numbers

FIELD = OutputField(type="int", compare="equal", bands={"BAD": [1, 2], "MID": [3, 3], "GOOD": [4, 5]})
PAIRS = [(1, 1), (1, 2), (2, 3), (2, 5), (3, 3), (4, 1), (5, 4), (5, 5), (4, 9), (5, None)]
"""(expected, found): the last one failed, the last but one is in no band."""


FIELDS = {"score": FIELD}
Row = tuple[RowResult, RowVerdict]


def seen(wanted: Any, actual: Any, **more: Any) -> Row:
    result = None if actual is None else {"score": actual}
    failed: dict[str, Any] = {"ok": False, "error": "[ValueError] no: it"} if actual is None else {}
    return RowResult(**failed, **more), check_row({"score": wanted}, result, FIELDS)


def unexpected(**more: Any) -> Row:
    return RowResult(**more), RowVerdict([])


def summary(*rows: Row) -> dict[str, Any]:
    tally = HopTally(FIELDS)
    for row in rows:
        tally.add(*row)
    return numbers(tally.report())


def parts(rate: dict[str, Any]) -> tuple[int, int]:
    assert rate["value"] == (rate["numerator"] / rate["n"] if rate["n"] else None)
    return rate["numerator"], rate["n"]


def test_bands_of_ten_rows() -> None:
    """Rows are what was expected, columns what came; an error has no band and counts in every denominator."""
    actual = summary(*(seen(*pair, profile="p") for pair in PAIRS))["p"]
    bands = actual["bands"]["score"]
    assert bands["matrix"] == {
        "BAD": {"BAD": 2, "MID": 1, "GOOD": 1, "(no band)": 0},
        "MID": {"BAD": 0, "MID": 1, "GOOD": 0, "(no band)": 0},
        "GOOD": {"BAD": 1, "MID": 0, "GOOD": 2, "(no band)": 2},
        "(no band)": {"BAD": 0, "MID": 0, "GOOD": 0, "(no band)": 0},
    }
    assert parts(bands["accuracy"]) == (5, 10)
    assert parts(bands["cross_band"]) == (2, 10)
    assert parts(actual["within_one"]["score"]) == (6, 10)
    assert parts(actual["correct_of_all"]) == (3, 10)
    assert parts(actual["correct_of_completed"]) == (3, 9)
    assert parts(actual["completion"]) == (9, 10)
    assert (actual["total"], actual["errors"], actual["completed"]) == (10, 1, 9)


def test_denominators() -> None:
    """Errors are wrong among all; what nobody verified is not completed; rows that expect nothing are not judged."""
    rows = [
        seen(1, 1),
        seen(1, 2),
        seen(1, None),
        seen(1, 1, outcome="FAIL"),
        seen(1, 2, outcome="UNCERTAIN"),
        unexpected(),
        unexpected(ok=False, error="gone"),
    ]
    actual = summary(*rows)["(none)"]
    assert (actual["total"], actual["errors"], actual["completed"]) == (7, 2, 3)
    assert parts(actual["completion"]) == (3, 7)
    assert parts(actual["correct_of_completed"]) == (1, 2)
    assert parts(actual["correct_of_all"]) == (2, 5)
    assert actual["error_kinds"] == {"[ValueError] no": 1, "gone": 1}


def test_nothing_to_divide_by_is_no_rate() -> None:
    """Null, never zero."""
    actual = summary(unexpected(ok=False, error="x"))["(none)"]
    assert actual["correct_of_all"]["value"] is None
    assert actual["correct_of_completed"]["value"] is None
    assert actual["completion"]["value"] == 0.0


def test_groups() -> None:
    """Each profile by itself, its tags in order, and the difficulties that are told, from easy to hard."""
    rows = [
        seen(1, 1, profile="a", tag="y", difficulty="easy"),
        seen(1, 2, profile="a", tag="x"),
        *(seen(1, 1, profile="b", tag="x", difficulty=name) for name in ("odd", "hard", "medium", "easy")),
    ]
    actual = summary(*rows)
    assert list(actual) == ["a", "b"]
    assert list(actual["a"]["tags"]) == ["x", "y"]
    assert parts(actual["a"]["tags"]["y"]["correct_of_all"]) == (1, 1)
    assert parts(actual["a"]["tags"]["x"]["correct_of_all"]) == (0, 1)
    assert list(actual["a"]["difficulties"]) == ["easy"]
    assert list(actual["b"]["difficulties"]) == ["easy", "medium", "hard", "odd"]


@pytest.mark.parametrize(
    ("seconds", "p50", "p95"),
    [
        ([], None, None),
        ([3.0], 3.0, 3.0),
        ([1.0, 3.0], 2.0, 2.9),
        ([*map(float, range(101))], 50.0, 95.0),
    ],
)
def test_percentiles_are_linear_between_ranks(seconds: list[float], p50: float | None, p95: float | None) -> None:
    """As numpy computes them; the data store does the same."""
    rows = [unexpected(seconds=one) for one in seconds] or [unexpected()]
    assert summary(*rows)["(none)"]["seconds"] == {"n": len(seconds), "p50": p50, "p95": p95}


def test_operators() -> None:
    """Calls, how many ended well, and their retries; whatever a foreign file holds there."""
    path: list[dict[str, Any]] = [
        {"step": 1, "op": "hop_get", "status": "OK", "retry_count": 2},
        {"step": 2, "op": "hop_get", "status": "FAIL"},
        {"step": 3, "op": "hop_judge", "status": "OK", "retry_count": "many"},
        {"op": None, "retry_count": None},
    ]
    actual = summary(unexpected(steps=path), unexpected(steps=path[:1]))["(none)"]["operators"]
    assert actual == {
        "hop_get": {"calls": 3, "ok": 2, "retries": 4},
        "hop_judge": {"calls": 1, "ok": 1, "retries": 0},
        "None": {"calls": 1, "ok": 0, "retries": 0},
    }


def test_a_row_without_result_says_what_the_function_said() -> None:
    """A verifier's reason is worth more than that a field is missing; an uncertain result is still compared."""
    failed = RowResult(outcome="FAIL", raw="not in the context"), check_row({"score": 1}, {}, FIELDS)
    unsure = seen(1, 2, outcome="UNCERTAIN")
    [first, second] = summary(failed, unsure)["(none)"]["differing"]["shown"]
    assert first[2] == "FAIL: not in the context"
    assert second[2].startswith("score: ")


def test_what_differs_is_listed() -> None:
    """Wrong rows with what is wrong, failed rows with their error, and no more than fifty of them."""
    rows = [
        seen(1, 2, id=0, tag="t"),
        seen(1, None, id=1),
        unexpected(ok=False, error="gone", id=2),
        seen(1, 1),
        unexpected(),
    ]
    actual = summary(*rows, *(seen(1, 3, id=n) for n in range(3, 63)))["(none)"]["differing"]
    assert actual["count"] == 63
    assert len(actual["shown"]) == 50
    first, second, third = actual["shown"][:3]
    assert third == ("2 #(untagged)", "error", "gone")
    assert first[:2] == ("0 #t", "wrong")
    assert first[2].startswith("score: ")
    assert second == ("1 #(untagged)", "error", "[ValueError] no: it")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("[KeyError] 'gone' (hop.py:7: raise KeyError('gone'))", "[KeyError] 'gone'"),
        ("[ValueError] not a number: 3x (hop.py:2: int(text))", "[ValueError] not a number"),
        ("it took longer than 2 s", "it took longer than 2 s"),
    ],
)
def test_equal_errors_are_counted_together_wherever_they_were_raised(error: str, kind: str) -> None:
    """Without the place in the user's code, and without details behind a colon."""
    assert error_kind(error) == kind
