"""Recognising the data set of a file by two of its keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.suites.memory.test.loaders import check_file, recognise_dataset

from suites.memory.test.files import EXAMPLES
from support.suite_files import problems_in

LONG = {"question_id": "q", "haystack_sessions": [], "haystack_dates": []}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([{"sample_id": "x", "conversation": {}}], "locomo"),
        ([{"conversation": {}, "qa": []}], "locomo"),
        (LONG, "longmemeval"),
        ({"sessions": [], "questions": []}, "plain"),
        ([{"conversation": [], "answer": "x"}], None),
        ([{"id": 1, "question": "x"}], None),
        ([{"sample_id": "x", "sessions": [], "memory_points": []}], None),
        ([1], None),
        ([], None),
        ("x", None),
    ],
)
def test_a_data_set_has_two_of_its_keys(tmp_path: Path, value: Any, name: str | None) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    assert recognise_dataset(path) == name


def test_only_json_files_are_looked_at(tmp_path: Path) -> None:
    """Broken files, missing files and folders are not recognised."""
    for name, text in (("x.txt", '{"sessions": [], "questions": []}'), ("y.json", '[{"qa": [], ')):
        (tmp_path / name).write_text(text)
        assert recognise_dataset(tmp_path / name) is None
    assert recognise_dataset(tmp_path / "absent.json") is None
    assert recognise_dataset(tmp_path) is None


@pytest.mark.parametrize("name", ["talks.json", "plain.json"])
def test_the_examples_are_fine(name: str) -> None:
    problems = check_file(EXAMPLES / name)
    assert problems == problems_in(EXAMPLES / name)
    # Like LoCoMo, talks.json has questions whose evidence is missing, unparsable, or names a missing message.
    assert [problem.level for problem in problems] == {"talks.json": ["warning"] * 4, "plain.json": []}[name]
    assert recognise_dataset(EXAMPLES / name) == {"talks.json": "locomo", "plain.json": "plain"}[name]


def test_each_is_checked_by_its_own_rules(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(LONG))
    assert any("answer_session_ids: is missing" in str(problem) for problem in problems_in(path))


def test_evidence_without_its_message_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    session = {"messages": [{"speaker": "ann", "text": "Hello."}]}
    question = {"question": "Who?", "answer": "ann", "evidence": ["D1:1", "D9:1"]}
    path.write_text(json.dumps([{"id": "one", "sessions": [session], "questions": [question]}]))
    (problem,) = problems_in(path)
    assert problem.level == "warning"
    assert str(problem) == f"{path} one, question 1: evidence: there is no message D9:1"
