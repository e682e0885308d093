"""What pages show of a case: the votes of judges and filters, in every form that a score may have."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.case_details import UNREADABLE_VOTES, count_votes, verdict_details
from assay.core.types import Score


@pytest.mark.parametrize(
    ("stored", "counts"),
    [
        (None, []),
        ([], []),
        ([["Correct", 2], ["Wrong", 1]], [("Correct", 2), ("Wrong", 1)]),
        ([["7", 2], [7, 1], [None, 3]], [("7", 3), ("null", 3)]),
        ([["Correct"], ["Wrong"], ["Correct"]], [("Correct", 2), ("Wrong", 1)]),
        (
            [["covered", "missed"], ["covered", "covered"], ["covered", "missed"]],
            [("covered, missed", 2), ("covered, covered", 1)],
        ),
    ],
)
def test_votes_are_counted_in_both_forms_that_scorers_write(stored: Any, counts: list[tuple[str, int]]) -> None:
    assert count_votes(stored) == counts


@pytest.mark.parametrize(
    "stored",
    [
        "Correct",
        3,
        True,
        {"Correct": 2},
        ["Correct", 2],
        [[]],
        [["Correct", True]],
        [["Correct", 0]],
        [["Correct", -1]],
        [["Correct", 10**20]],
        [["Correct", 1.5]],
        [["Correct", "Wrong", 2]],
        [["Correct", [1]]],
        [[1, 2, 3]],
        [{"label": "Correct"}],
        [None],
    ],
)
def test_votes_in_any_other_form_are_a_sentence(stored: Any) -> None:
    data = {"label": "Correct", "votes": stored, "stable": "perhaps"}
    score = Score(0, "case", "set", "m", "judge@1", "answer", value=1.0, data=data)

    (verdict,) = verdict_details([score])

    assert (verdict.votes, verdict.is_stable, verdict.remark) == ([], None, UNREADABLE_VOTES)
