"""Values of JSON know their places, and note what they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, Problem
from assay.core.nodes import Node, decoded, records, told


def node(value: Any, problems: list[Problem] | None = None) -> Node:
    return Node(value, "f.json $", [] if problems is None else problems)


def test_a_place_is_a_json_path() -> None:
    """Keys that are no plain names stand in brackets."""
    found = node({"a": [{"b c": {"d": 1}}]})["a"].items()[0]["b c"]["d"]
    assert (found.at, found.value) == ('f.json $.a[0]["b c"].d', 1)


def test_a_missing_value_is_noted_when_something_is_wanted_of_it() -> None:
    problems: list[Problem] = []
    missing = node({}, problems)["a"]["b"]
    assert problems == []
    assert missing.text() == ""
    assert problems == [Problem("f.json $.a.b", "is missing")]


@pytest.mark.parametrize("value", [{}, {"a": None}, 3])
def test_what_may_be_absent_is_its_default(value: Any) -> None:
    """At the place where it would stand; null is absent too."""
    found = node(value).get("a", "x")
    assert (found.value, found.at) == ("x", "f.json $.a")
    assert node({"a": 0}).get("a", "x").value == 0


def test_the_first_key_that_has_a_value_is_taken() -> None:
    """Where none has one, the first is the one to name."""
    assert node({"a": None, "b": 2}).either("a", "b").at == "f.json $.b"
    assert node({}).either("a", "b").at == "f.json $.a"


@pytest.mark.parametrize(("value", "name"), [("x", "x"), (7, "7"), (True, ""), (1.5, ""), (" ", " ")])
def test_a_name_is_a_text_or_a_whole_number(value: Any, name: str) -> None:
    problems: list[Problem] = []
    assert node(value, problems).name() == name
    assert bool(problems) is (name.strip() == "")


def test_a_problem_may_be_a_warning() -> None:
    problems: list[Problem] = []
    node(1, problems).note("odd", "warning")
    assert problems == [Problem("f.json $", "odd", "warning")]


def test_a_file_holds_a_list_or_one_object(tmp_path: Path) -> None:
    """A byte order mark is no value; each knows its path."""
    path = tmp_path / "a.json"
    for text, places in ((b'\xef\xbb\xbf {"a": 1}', ["$"]), (b"[{}, 2]", ["$[0]", "$[1]"])):
        path.write_bytes(text)
        assert [each.at for each in records(path, "thing", "hint")] == places


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "$: must be a list of things, or one as an object"),
        ("[]", "a.json: there is no thing in it"),
        ("[1,\n oh]", "a.json:2: not JSON"),
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError) as caught:
        records(tmp_path / "a.json", "thing", "hint")
    assert message in str(caught.value)


def test_only_objects_with_something_in_them_are_decoded() -> None:
    problems: list[Problem] = []
    assert [decoded(raw, "$", problems) for raw in (b"{}", b"[]", b"{")] == [None] * 3
    assert [each.message[:12] for each in problems] == ["is empty", "must be an o", "not JSON: In"]


def test_problems_beyond_the_first_are_counted() -> None:
    problems = [Problem("x", str(number)) for number in range(1300)]
    assert told(Path("f"), problems)[200:] == [Problem("f", "and 1,100 more problems")]
    assert told(Path("f"), problems[:200]) == problems[:200]
