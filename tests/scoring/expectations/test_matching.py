"""How `evaluation_config` becomes a way to compare."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.scoring.expectations import Matching, compare, matching_of, matching_problems


def test_the_document_and_its_defaults() -> None:
    """Defaults: lenient, no tolerance, nothing ignored. Other fields are allowed."""
    assert matching_of({}) == matching_of({"strict_mode": None, "tolerance": None, "ignore_fields": None}) == Matching()
    assert matching_of(
        {"evaluate_final": True, "strict_mode": True, "tolerance": 1, "ignore_fields": ["timestamp", "a.b"]}
    ) == Matching(strict=True, tolerance=1.0, ignore=frozenset({"timestamp", "a.b"}))


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ({"tolerance": -0.1}, ["tolerance"]),
        ({"tolerance": "0.1"}, ["tolerance"]),
        ({"tolerance": True}, ["tolerance"]),
        ({"tolerance": float("nan")}, ["tolerance"]),
        ({"tolerance": float("inf")}, ["tolerance"]),
        ({"tolerance": 10**400}, ["tolerance"]),
        ({"strict_mode": "yes"}, ["strict_mode"]),
        ({"ignore_fields": "timestamp"}, ["ignore_fields"]),
        (
            {"ignore_fields": ["a", 5, " ", "items[0].ts"]},
            ["ignore_fields[1]", "ignore_fields[2]", "ignore_fields[3]"],
        ),
        (
            {"strict_mode": 1, "tolerance": -1, "ignore_fields": 5},
            ["strict_mode", "tolerance", "ignore_fields"],
        ),
    ],
)
def test_wrong_values_are_named(config: dict[str, Any], paths: list[str]) -> None:
    """`matching_problems` lists all problems; `matching_of` raises the first."""
    assert [path for path, _ in matching_problems(config)] == paths
    with pytest.raises(UsageError, match=f"^{paths[0].partition('[')[0]}"):
        matching_of(config)


STEP = {"mode": 1, "deep": {"mode": 2, "t": 3}}


@pytest.mark.parametrize(
    ("ignored", "wrong"),
    [
        ([], ["mode", "deep.mode", "deep.t"]),
        (["mode"], ["deep.t"]),
        (["pre.mode"], ["deep.mode", "deep.t"]),
        (["out.deep.mode"], ["mode", "deep.t"]),
        (["deep.mode"], ["mode", "deep.t"]),
        (["other.mode"], ["mode", "deep.mode", "deep.t"]),
    ],
)
def test_an_ignored_path_may_begin_with_the_name_of_the_step(ignored: list[str], wrong: list[str]) -> None:
    matching = matching_of({"ignore_fields": ignored}).within({"pre", "out"}, STEP)
    checks = compare(STEP, {"mode": 0, "deep": {"mode": 0, "t": 0}}, matching)
    assert [check.path for check in checks if not check.passed] == wrong


def test_a_first_name_that_is_also_a_key_is_the_key() -> None:
    matching = matching_of({"ignore_fields": ["deep.mode"]}).within({"deep"}, STEP)
    checks = compare(STEP, {"mode": 0, "deep": {"mode": 0, "t": 3}}, matching)
    assert [check.path for check in checks if not check.passed] == ["mode"]


@pytest.mark.parametrize(
    ("ignored", "wrong"),
    [
        (["one.a.t"], ["two.a.t"]),
        (["a.t"], []),
        (["two.t"], ["one.a.t", "two.a.t"]),
        (["two.a"], ["one.a.t"]),
    ],
)
def test_an_ignored_path_of_outputs_may_begin_inside_of_one(ignored: list[str], wrong: list[str]) -> None:
    expected = {"one": {"a": {"t": 1}}, "two": {"a": {"t": 1}}}
    actual = {"one": {"a": {"t": 0}}, "two": {"a": {"t": 0}}}
    checks = compare(expected, actual, matching_of({"ignore_fields": ignored}).below(expected, actual))
    assert [check.path for check in checks if not check.passed] == wrong
