"""The answer of a row as a person reads it, by suite."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.suite import pages_of
from assay.core.suite_pages import SuitePages
from assay.core.types import Record
from assay.suites import find_suite


def answer_of(suite: str, data: Any, kind: str = "answer") -> str:
    record = Record(index=0, case="k", set="s", subject="m", try_=1, kind=kind, data=data)
    return pages_of(find_suite(suite)).answer_text([record])


@pytest.mark.parametrize(
    ("status", "result", "text"),
    [
        ("OK", '{"found": "Oslo", "score": 5, "right": true}', "found: Oslo · score: 5 · right: true"),
        ("OK", '{"answer": "Oslo"}', "Oslo"),
        ("OK", '{"towns": ["Oslo", "Århus"]}', '["Oslo", "Århus"]'),
        ("OK", "{}", ""),
        ("OK", "null", "null"),
        ("FAIL", '"no such town"', "FAIL: no such town"),
        ("UNCERTAIN", '{"answer": "Oslo", "score": 1}', "UNCERTAIN: answer: Oslo · score: 1"),
        ("OK", "plain text", "plain text"),
    ],
)
def test_a_result_of_hop_is_its_values_after_a_status_that_is_not_ok(status: str, result: str, text: str) -> None:
    assert answer_of("hop", {"status": status, "result": result}) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"answer": "Oslo", "hits": [["D1:1", "D1:1"]]}, "Oslo"),
        ({"answer": "", "hits": [["x", "D1:1", "D1:2"], ["D1:3"]]}, "retrieved D1:1, D1:2, D1:3"),
        ({"answer": "", "hits": []}, "nothing retrieved"),
        ({"answer": "", "hits": [["D1:1"]], "answer_seconds": 0.5}, ""),
        ({"answer": "", "hits": [], "error": "no reply"}, "error: no reply"),
        ({"answer": "", "hits": [[f"D{number}"] for number in range(13)]}, None),
    ],
)
def test_a_test_of_a_memory_without_a_model_has_what_was_retrieved(data: Any, text: str | None) -> None:
    found = answer_of("memory-test", {"test": 1, "question": 1, **data})
    assert found == text if text is not None else found.endswith("D11 and 1 more")


def test_a_session_of_a_memory_has_the_number_of_its_changes() -> None:
    changes = [{"op": op, "id": "x"} for op in ("add", "archive", "add", "keep")]
    assert answer_of("memory-eval", {"delta": changes}, "session") == "items: 2 added, 1 removed"
    assert answer_of("memory-eval", {"delta": []}, "session") == "no item changed"
    assert answer_of("memory-eval", {"answer": "", "error": "no reply"}) == "error: no reply"


def test_other_suites_have_the_last_record() -> None:
    assert answer_of("task", [[" 12"]]) == " 12"
    assert answer_of("pipeline", {"outputs": {"city": "Århus"}}) == '{"city": "Århus"}'
    assert answer_of("task", {"tokens": 3}, "used") == ""
    assert SuitePages().answer_text([]) == ""
