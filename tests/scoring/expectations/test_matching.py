"""How `evaluation_config` becomes a way to compare."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.scoring.expectations import Matching, matching_of, matching_problems


def test_the_document_and_its_defaults() -> None:
    """Defaults: lenient, no tolerance, nothing ignored. Other fields are allowed."""
    assert (
        matching_of({})
        == matching_of({"strict_mode": None, "tolerance": None, "ignore_fields": None})
        == Matching()
    )
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
