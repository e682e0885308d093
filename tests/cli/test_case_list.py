"""The list of cases that `assay show` prints: question, expected, found, and the errors below."""

from __future__ import annotations

from typing import Any

import pytest

from assay.cli.case_list import CaseLine, case_lines, error_lines, line_cells
from assay.core.suite import pages_of
from assay.core.suite_pages import RunOrigin, StoredCase
from assay.core.types import ASK, Call, End, Failure, Record, Score
from assay.store.render.screen import columns_of, cut_cell
from assay.suites.hop.suite import HopSuite
from assay.suites.task.suite import TaskSuite

ORIGIN = RunOrigin({}, {}, {})


def stored_case(
    index: int = 0,
    *,
    failure: Failure | None = None,
    records: list[Record] | None = None,
    scores: list[Score] | None = None,
    calls: list[Call] | None = None,
) -> StoredCase:
    status = failure.status if failure else "ok"
    end = End(index, f"key{index}", "set", "fast", ASK, 1, status, [], failure)
    return StoredCase(end, records or [], scores or [], calls or [])


def score(value: float, data: Any = None, expected: Any = None, metric: str = "correct", part: str = "") -> Score:
    return Score(0, "key", "set", "fast", "s@1", metric, part, value=value, data=data, expected=expected)


def answer(data: Any) -> Record:
    return Record(0, "key", "set", "fast", 1, "answer", data=data)


def row(result: str, *checks: dict[str, Any], expected: Any) -> StoredCase:
    """Return a row of a hop run that returned `result`."""
    passed = all(check["passed"] for check in checks)
    return stored_case(
        records=[answer({"status": "OK", "result": result})],
        scores=[score(float(passed), {"checks": list(checks)}, expected)],
    )


def check(path: str, expected: Any, actual: Any) -> dict[str, Any]:
    return {
        "path": path,
        "kind": "equal",
        "passed": expected == actual,
        "expected": expected,
        "actual": actual,
    }


def lacking(path: str, expected: Any) -> dict[str, Any]:
    return {"path": path, "kind": "missing", "passed": False, "expected": expected}


RAISED = Failure("user_code", "[KeyError] 'foo' (two.py:2: raise KeyError('foo'))")


@pytest.mark.parametrize(
    ("case", "expected", "found"),
    [
        (row('{"answer": "no"}', check("answer", "yes", "no"), expected={"answer": "yes"}), "yes", "no"),
        (
            row(
                '{"city": "Rome", "year": 1952, "open": 1}',
                check("city", "Oslo", "Rome"),
                check("year", 1951, 1952),
                check("open", 1, 1),
                expected={"city": "Oslo", "year": 1951, "open": 1},
            ),
            "city: Oslo · year: 1951",
            "city: Rome · year: 1952",
        ),
        (
            stored_case(
                records=[answer({"status": "FAIL", "result": "no idea"})],
                scores=[score(0.0, {"checks": [lacking("city", "Oslo"), lacking("year", 1951)]}, {"city": "Oslo"})],
            ),
            "city: Oslo · year: 1951",
            "FAIL: no idea",
        ),
        (stored_case(failure=RAISED, scores=[score(0.0, None, {"city": "Oslo"})]), '{"city":"Oslo"}', "user_code"),
    ],
    ids=["a wrong field", "of several fields the wrong ones", "the function failed", "it raised"],
)
def test_a_row_of_a_hop_run_has_its_expected_and_found_values(case: StoredCase, expected: str, found: str) -> None:
    """Also beside a row that raised."""
    line, _ = case_lines([case, stored_case(1, failure=RAISED)], pages_of(HopSuite), ORIGIN)
    assert (line.expected, line.found) == (expected, found)


def test_an_error_stands_once_and_in_full_below_the_list() -> None:
    long = Failure("server_error", "http://127.0.0.1:8000/v1: " + "the model is loading, " * 10)
    cases = [stored_case(0, failure=RAISED), stored_case(1, failure=long), stored_case(2, failure=RAISED)]
    lines = case_lines(cases, pages_of(HopSuite), ORIGIN)
    _, rows = line_cells(lines, {"set": set(), "subject": set()}, 80, {})
    assert [cells[-1] for cells in rows] == ["user_code", "server_error", "user_code"]
    assert error_lines(lines) == [
        f"0, 2  user_code: {RAISED.message}",
        f"1  server_error: {long.message}",
    ]


def test_the_positions_of_a_frequent_error_are_counted() -> None:
    lines = case_lines([stored_case(index, failure=RAISED) for index in range(12)], pages_of(HopSuite), ORIGIN)
    assert error_lines(lines) == [f"0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more  user_code: {RAISED.message}"]


def filtered(part: str, value: float, found: str) -> Score:
    return score(value, {"filtered": [found]}, "7", "exact_match", part)


def test_of_several_filters_the_wrong_one_is_named() -> None:
    one = stored_case(scores=[filtered("none", 0.0, "8")])
    two = stored_case(scores=[filtered("number", 1.0, "7"), filtered("strict", 0.0, "[invalid]")])
    found = [line.found for line in case_lines([one, two], pages_of(TaskSuite), ORIGIN)]
    assert found == ["8", "strict: [invalid]"]


@pytest.mark.parametrize(
    ("text", "columns", "middle", "cut"),
    [
        ("short", 5, False, "short"),
        ("expected", 5, False, "expe…"),
        ("How many legs has a spider?", 12, True, "How ma…ider?"),
        ("蜘蛛有几条腿", 12, True, "蜘蛛有几条腿"),
        ("蜘蛛有几条腿", 7, False, "蜘蛛有…"),
        ("蜘蛛有几条腿", 8, True, "蜘蛛…腿"),
    ],
)
def test_a_cell_is_cut_by_the_columns_of_the_terminal(text: str, columns: int, middle: bool, cut: str) -> None:
    assert cut_cell(text, columns, middle=middle) == cut
    assert columns_of(cut) <= columns


def test_a_list_fits_the_terminal_and_short_texts_leave_their_room_to_long_ones() -> None:
    question = "一只蜘蛛有几条腿？" * 10
    lines = [CaseLine(stored_case(), "✗", question, "8", "six")]
    header, rows = line_cells(lines, {"set": set(), "subject": set()}, 80, {"score": ["0"]})
    assert header == ["position", "", "question", "expected", "found", "score"]
    widths = [max(columns_of(name), columns_of(cell)) for name, cell in zip(header, rows[0], strict=True)]
    assert 78 <= sum(widths) + 2 * (len(widths) - 1) <= 80
