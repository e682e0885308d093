"""Against numbers that lm-evaluation-harness itself computed; `golden/scoring/make.py` makes them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.scoring import translation
from assay.scoring.statistics import AGGREGATIONS, stderr

GOLDEN = Path(__file__).parents[1] / "golden" / "scoring" / "numbers.json"
CASES = json.loads(GOLDEN.read_text())["cases"]


def values_of(case: dict[str, Any]) -> list[Any]:
    if case["aggregation"] in translation.NAMES:
        pytest.importorskip("sacrebleu")
    if case["aggregation"] == "nanmean":
        return [float("nan") if value is None else value for value in case["values"]]
    found: list[Any] = case["values"]
    return found


def name(case: dict[str, Any]) -> str:
    return f"{case['aggregation']}-{len(case['values'])}-{case['draws']}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_values_are_equal_to_the_bit(case: dict[str, Any]) -> None:
    """Every aggregation gives the harness's number, not one close to it."""
    assert AGGREGATIONS[case["aggregation"]](values_of(case)) == case["value"]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_standard_errors_are_equal_to_the_bit(case: dict[str, Any]) -> None:
    """Analytic or drawn, and none where the harness has none."""
    assert stderr(case["aggregation"], values_of(case), case["draws"]) == case["stderr"]


def test_every_aggregation_of_the_harness_is_compared() -> None:
    """`acc_all` is no aggregation there, and `mcc` is another name for one."""
    assert {case["aggregation"] for case in CASES} == set(AGGREGATIONS) - {"acc_all", "mcc"}


def test_corpus_scores_are_drawn_a_hundred_times_at_most() -> None:
    """As in the harness; without that they would take hours there."""
    case = next(case for case in CASES if case["aggregation"] == "bleu")
    assert stderr("bleu", values_of(case)) == case["stderr"]
