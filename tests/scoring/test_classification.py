from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay.scoring.classification import label_f1, matthews_corrcoef
from assay.scoring.statistics import AGGREGATIONS, brier_score, perplexities, perplexity, stderr


@pytest.mark.parametrize(
    ("pairs", "f1"),
    [
        ([[1, 2], [2, 2], [1, 1]], 2 / 3),
        ([[-1, 1], [1, 1]], 2 / 3),
        ([[True, 0], [1, 1.0]], 2 / 3),
        ([[0, 0], [0, 0]], 0.0),
        ([["a", "a"]], 0.0),
        ([["1", "1"]], 1.0),
        ([[[1], 1], [[0], 1]], 2 / 3),
    ],
)
def test_f1_is_of_label_one_where_the_harness_has_a_number(pairs: list[Any], f1: float) -> None:
    """Two labels with 1 among them, or one label only: then F1 is of 1, and 0 where there is no 1."""
    assert label_f1(pairs) == f1


@pytest.mark.parametrize(
    ("pairs", "f1"),
    [
        ([["1", "1"], ["0", "1"], ["1", "0"]], 0.5),
        ([["a", "a"], ["b", "a"]], (2 / 3 + 0) / 2),
        ([[0, 0], [2, 2], [2, 0]], 2 / 3),
        ([[0, 0], [1, 1], [2, 2]], 1.0),
        ([[1, "1"], [0, "0"]], 1.0),
        ([[0.5, 1], [1, 1]], (0 + 2 / 3) / 2),
    ],
)
def test_f1_has_a_number_where_the_harness_fails(pairs: list[Any], f1: float) -> None:
    """Texts "0" and "1" are labels 0 and 1; any other labels give the mean over labels."""
    assert label_f1(pairs) == pytest.approx(f1, abs=1e-15)
    assert stderr("f1", pairs, 100) is not None


def test_draws_are_scored_as_the_whole_is() -> None:
    """Where three labels occur, a draw with two of them is a mean over labels too."""
    pairs = [[0, 0]] * 6 + [[1, 1]] * 6 + [[2, 2]]
    assert stderr("f1", pairs, 1000) == 0.0


def test_matthews_takes_any_labels() -> None:
    """1 for agreement, -1 for its opposite, 0 where a side has one label only."""
    assert matthews_corrcoef([["a", "a"], ["b", "b"], ["c", "c"]]) == 1.0
    assert matthews_corrcoef([[0, 1], [1, 0]]) == -1.0
    assert matthews_corrcoef([[0, 1], [1, 1]]) == 0.0
    assert AGGREGATIONS["mcc"] is AGGREGATIONS["matthews_corrcoef"]


def test_brier_scores_of_documents_with_other_numbers_of_choices() -> None:
    """The harness fails on these; a right choice that is none of the choices is met by none."""
    assert brier_score([[0, [1.0, 0.0]], [2, [0.0, 0.0, 1.0]]]) == 0.0
    assert brier_score([[-100, [0.0, 1.0]]]) == 1.0


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_rows_are_summed_from_left_to_right(count: int) -> None:
    """However many rows are summed at a time, each is summed as one list of floats is."""
    rows = np.random.default_rng(5).normal(size=(count, 1500)) * 10.0 ** np.arange(-750, 750)[None, :].clip(-9, 9)
    assert perplexities(-abs(rows) / 1e9) == [perplexity((-abs(row) / 1e9).tolist()) for row in rows]


def test_a_perplexity_without_room_is_infinite() -> None:
    """The harness stops with an OverflowError."""
    assert AGGREGATIONS["perplexity"]([-1000.0]) == float("inf")
    assert AGGREGATIONS["weighted_perplexity"]([[-1000.0, 1]]) == float("inf")


def test_questions_count_when_all_their_answers_are_right() -> None:
    """Two questions, one of them with a wrong answer; the standard error mixes up paragraphs, as there."""
    docs = [
        {"idx": {"paragraph": paragraph, "question": question}, "label": 1}
        for paragraph, question in [(0, 0), (0, 0), (0, 1), (1, 1)]
    ]
    pairs = list(zip([True, False, True, True], docs, strict=True))
    assert AGGREGATIONS["acc_all"](pairs) == 2 / 3
    assert stderr("acc_all", pairs) == 0.5
