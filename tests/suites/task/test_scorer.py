"""The scores of a document without an answer."""

from __future__ import annotations

import pytest

from assay.core.case_details import AnswerPair
from assay.core.protocols import ScorerInput
from assay.core.suite import pages_of
from assay.core.suite_pages import StoredCase
from assay.core.types import ASK, Case, End, Failure
from assay.scoring.metrics import find_metric
from assay.suites.task.config import GENERATE, ROLLING
from assay.suites.task.filters import FilterChain
from assay.suites.task.metrics import TaskMetric
from assay.suites.task.requests import TaskGold
from assay.suites.task.scorer import TaskScorer, TaskScoring, measure_answer
from assay.suites.task.suite import TaskSuite


@pytest.mark.parametrize(("output", "expected"), [(GENERATE, "4"), (ROLLING, None)])
def test_a_document_without_an_answer_has_its_target_once_for_each_filter(output: str, expected: str | None) -> None:
    """Not that of `loglikelihood_rolling`, which may be a book. The target is shown without a found value."""
    chains = [FilterChain(name, [], ends_in_list=False) for name in ("number", "strict")]
    metrics = {name: TaskMetric(name, right_wrong=name == "exact_match") for name in ("exact_match", "f1")}
    scorer = TaskScorer("task@1", {"sums": TaskScoring(output, chains, metrics)})
    failure = Failure("user_code", "ValueError: boom")
    case = Case(0, "key", "sums", "m", "", None, TaskGold({}, "4"))
    end = End(0, "key", "sums", "m", ASK, 1, failure.status, [], failure)
    scores = scorer.score_at_once(ScorerInput(case, end, []))
    assert scores is not None
    assert [(score.metric, score.part, score.value, score.expected) for score in scores] == [
        ("exact_match", "number", 0.0, expected),
        ("f1", "number", None, None),
        ("exact_match", "strict", 0.0, expected),
        ("f1", "strict", None, None),
    ]
    stored = StoredCase(end, [], scores)
    assert pages_of(TaskSuite).details(stored).pairs == [
        AnswerPair(name=chain.name, expected=expected, found=None) for chain in chains if expected
    ]
    assert pages_of(TaskSuite).sections(stored)[0].text == ("no answer\nexpected 4" if expected else "no answer")


@pytest.mark.parametrize(
    ("name", "higher_is_better", "best"),
    [("wer", False, 0.0), ("wer", True, 1.0), ("wer", None, 1.0), ("exact_match", False, 1.0)],
)
def test_the_best_match_of_several_targets_counts(name: str, *, higher_is_better: bool | None, best: float) -> None:
    """The smallest error rate is the best one. A metric of right or wrong is true for any of them, as in the harness."""
    plugin = find_metric(name)
    metric = TaskMetric(name, plugin.build(), "mean", higher_is_better=higher_is_better, right_wrong=plugin.right_wrong)
    assert measure_answer(metric, ["the cat", "a dog ran"], "the cat") == best
