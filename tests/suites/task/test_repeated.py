"""Repeats: pass@k and maj@k of the summary equal the harness's filters for the same k."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from assay.core.report import Curve

from support.task_project import TaskProject, TaskResult

N = 6
KS = range(1, N + 1)
DOCS = [
    {"q": "a b a b b a", "a": "a"},
    {"q": "b a a c c c", "a": "a"},
    {"q": "a a a a a a", "a": "a"},
    {"q": "b c b c a a", "a": "a"},
    {"q": "b b a a a a", "a": "a"},
    {"q": "b a a a a a", "a": "a"},
    {"q": "x b c d e f", "a": "z"},
]
TAKE = {"function": "take_first"}
VOTE = {"function": "majority_vote"}


def voted(lab: TaskProject, *before: dict[str, Any], **options: Any) -> TaskResult:
    """A run of six repeats with a chain maj@k for every k, and one that takes the first."""
    chains = [{"name": "first", "filter": [*before, TAKE]}] + [
        {"name": f"maj@{k}", "filter": [{"function": "take_first_k", "k": k}, *before, VOTE, TAKE]} for k in KS
    ]
    lab.task(docs=DOCS, repeats=N, filter_list=chains)
    return lab.run(model="python/model.py:repeats", **options)


def values(curve: Curve) -> list[float | None]:
    """The curve's numbers, k from 1 on."""
    assert [point.x for point in curve.points] == list(range(1, N + 1))
    return [point.metric.value for point in curve.points]


def test_maj_at_k_is_the_score_of_the_filter_maj_at_k(lab: TaskProject) -> None:
    """For every k, whichever chain it is read from: ties go to the answer that came first."""
    result = voted(lab)
    scores = [result.results["t"][f"exact_match,maj@{k}"] for k in KS]
    votes = [[Counter(doc["q"].split()[:k]).most_common(1)[0][0] == doc["a"] for doc in DOCS] for k in KS]
    assert scores == [sum(voted) / len(DOCS) for voted in votes]
    for chain in ("first", "maj@2", f"maj@{N}"):
        assert values(result.curve("maj@k", chain)) == scores


def test_votes_are_counted_after_the_filters(lab: TaskProject) -> None:
    """Answers that the filter cannot read vote too."""
    read = {"function": "regex", "regex_pattern": "(a)", "fallback": "?"}
    result = voted(lab, read)
    scores = [result.results["t"][f"exact_match,maj@{k}"] for k in KS]
    assert values(result.curve("maj@k", "first")) == scores
    assert scores != [voted(lab, fresh=True).results["t"][f"exact_match,maj@{k}"] for k in KS]


def test_pass_at_k_is_the_share_of_draws_with_a_right_one(lab: TaskProject) -> None:
    """Over all ways to draw k of the repeats, counted one by one."""
    curve = voted(lab).curve("pass@k", "first")
    for k in KS:
        shares = []
        for doc in DOCS:
            draws = list(combinations(doc["q"].split(), k))
            shares.append(sum(doc["a"] in draw for draw in draws) / len(draws))
        assert values(curve)[k - 1] == pytest.approx(sum(shares) / len(shares))
    assert {(point.metric.denominator, point.metric.name) for point in curve.points} == {(len(DOCS), "exact_match")}


def test_rows_hold_every_repeat_and_the_journal_the_votes(lab: TaskProject) -> None:
    """`resps` by request and repeat."""
    result = voted(lab)
    assert result.rows()[0]["resps"] == [["a", "b", "a", "b", "b", "a"]]


def test_a_document_with_an_error_has_one_denominator_in_table_and_curve(lab: TaskProject) -> None:
    """It counts as wrong in the metric, and so all its repeats do: `maj@6` is one number."""
    lab.write(
        "model.py",
        "async def repeats(prompt, params):\n"
        "    if prompt.startswith('x'):\n        raise ConnectionError('gone')\n"
        "    return prompt.split()[params['seed'] - 1234]\n",
    )
    result = voted(lab)
    curve = result.curve("maj@k", "first")
    assert {point.metric.denominator for point in curve.points} == {len(DOCS)}
    assert values(curve)[0] == 2 / 7
    assert values(curve) == [result.results["t"][f"exact_match,maj@{k}"] for k in KS]
    first = values(result.curve("pass@k", "first"))[0]
    assert first is not None
    assert first <= 6 / 7


def test_without_repeats_there_is_no_curve(lab: TaskProject) -> None:
    """A single answer has no k."""
    lab.task(docs=DOCS)
    assert lab.run().entry().curves == []


def test_a_metric_without_right_and_wrong_has_no_curve(lab: TaskProject) -> None:
    """Word overlap is not a vote."""
    lab.task(docs=DOCS, repeats=2, metric_list=[{"metric": "f1", "aggregation": "mean"}])
    assert lab.run(model="python/model.py:repeats").entry().curves == []
