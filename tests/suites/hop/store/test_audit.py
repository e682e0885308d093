"""Every shape of a line in a folder of results, and what is read of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.suites.hop.store import BaseDataStore, ViewConfig, read_audit

from support.hop_result_lines import ERRORS, FIELDS, NO_RESULTS, OPENED, TEXT, flat


@pytest.mark.parametrize("case", OPENED.values(), ids=OPENED.keys())
def test_results_are_opened(case: tuple[dict[str, Any], dict[str, Any], str | None]) -> None:
    """A completed call has its fields, and the outcome that its function told."""
    rec, fields, outcome = case
    audit = read_audit(rec)
    assert audit is not None
    assert (audit.fields, audit.outcome, audit.status) == (fields, outcome, "OK")
    assert (audit.error, audit.parse_error) == (None, False)


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS.keys())
@pytest.mark.parametrize("key", [None, "score"])
def test_errors_are_results_without_fields(case: tuple[dict[str, Any], str], key: str | None) -> None:
    """A call that did not come back is a result, with or without the key field, and has no output."""
    audit = read_audit(case[0], key)
    assert audit is not None
    assert (audit.status, audit.error, audit.fields, audit.failed) == ("ERROR", case[1], {}, True)


@pytest.mark.parametrize(("result", "outcome"), [("no JSON", None), ('{"a": 1', None), (["FAIL", "why"], "FAIL")])
def test_text_is_kept_as_it_is(result: Any, outcome: str | None) -> None:
    """A result that is no JSON is completed, has no fields, and shows its text."""
    audit = read_audit(flat(result))
    assert audit is not None
    assert audit.parse_error
    assert audit.raw == (result if isinstance(result, str) else "why")
    assert (audit.fields, audit.status, audit.outcome) == ({}, "OK", outcome)


@pytest.mark.parametrize("rec", NO_RESULTS.values(), ids=NO_RESULTS.keys())
def test_other_lines_are_no_results(rec: dict[str, Any]) -> None:
    assert read_audit(rec) is None


def test_a_test_may_have_a_field_called_type() -> None:
    """Only a run's id makes a record the observer's."""
    assert read_audit(flat(TEXT, type="step")) is not None


def test_the_key_field_tells_a_plain_result_from_input() -> None:
    rec = {"id": 1, "tag": "t", "score": 3}
    assert read_audit(rec) is None
    audit = read_audit(rec, "score")
    assert audit is not None
    assert audit.fields == {"score": 3}
    assert read_audit({"id": 1, "result": '{"other": 1}'}, "score") is None


def test_a_completed_result_without_the_key_field_is_kept() -> None:
    assert read_audit(flat('{"other": 1}'), "score") is not None


def test_the_line_inside_of_several_wrappers_is_the_row() -> None:
    """Files of a view that wrapped its own output: the outer result counts, the innermost input is the row."""
    rec = {"input": {"input": {"id": 7, "tag": "t", "expected_score": 3}, "result": "{}"}, "result": TEXT}
    audit = read_audit(rec)
    assert audit is not None
    assert audit.row == {"id": 7, "tag": "t", "expected_score": 3}
    assert audit.fields == FIELDS


def test_of_pairs_in_pairs_the_outer_status_counts() -> None:
    """A function that hands on an operator's pair beside a status of its own has the last word."""
    audit = read_audit(flat('["UNCERTAIN", "[\\"OK\\", {\\"score\\": 1}]"]'))
    assert audit is not None
    assert (audit.outcome, audit.fields) == ("UNCERTAIN", {"score": 1})


def test_an_audit_is_one_object(tmp_path: Path) -> None:
    """The result's fields lie over the line's own; id and tag stay; the line's profile is carried."""
    store = BaseDataStore(tmp_path, ViewConfig(audit_key_field="score"))
    rec = flat('{"score": 4, "question": "asked", "id": 9, "profile": "x"}', profile="kimi", expected_score=3)
    assert store._normalize_audit(rec) == {
        "id": 1,
        "tag": "t",
        "question": "asked",
        "expected_score": 3,
        "score": 4,
        "profile": "kimi",
        "hop_status": "OK",
        "hop_outcome": None,
        "hop_error": None,
        "parse_error": False,
    }
    viewed = store._normalize_audit({"input": {"id": 1, "profile": "earlier"}, "result": "no JSON"})
    assert viewed is not None
    assert (viewed["profile"], viewed["parse_error"], viewed["hop_raw"]) == (None, True, "no JSON")
    assert store._normalize_audit({"_type": "meta"}) is None


def test_deep_nesting_is_text() -> None:
    """No depth of brackets or wrappers is a traceback."""
    deep = "[" * 100_000
    audit = read_audit(flat(deep))
    assert audit is not None
    assert audit.parse_error
    rec: dict[str, Any] = {"id": 1}
    for _ in range(500):
        rec = {"input": rec, "result": "{}"}
    assert read_audit(rec) is not None
