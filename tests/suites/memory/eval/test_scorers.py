"""Questions to the judge, verdicts without a judge, and the scores of verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.types import Failure, Score
from assay.scoring.judge import Judge
from assay.scoring.questions import (
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
    invalid,
)
from assay.suites.memory.eval.result_lines import MemoryDelta, SampleResults, SnapshotMemory, sample_answers
from assay.suites.memory.eval.scorers import EvalScorer, LexicalScorer

from suites.memory.eval.doubles import Scripted, judge, point, question, scores_of, session

BEST = {"recall": "covered", "correctness": "correct", "update": "updated", "interference": "rejected"}
BEST |= {"answer": "Correct", "evidence": "covered"}


def best(matter: JudgeQuestion) -> Verdict:
    """Return the best label for every item."""
    return Verdict((BEST[matter.kind],) * matter.count, "as told")


def values(scores: list[Score]) -> dict[tuple[str, str], Any]:
    """Return values by part and metric; the status if there is no value."""
    return {(score.part, score.metric): score.status if score.value is None else score.value for score in scores}


def only(scores: list[Score], metric: str) -> Score:
    """Return the only score of a metric."""
    (match,) = [score for score in scores if score.metric == metric]
    return match


SESSION = session(
    "S02",
    wrote=[
        "the kite is blue now",
        MemoryDelta("S02", "archive", "the kite is red"),
        MemoryDelta("S02", "update", "Ann lives in Rome"),
        MemoryDelta("S02", "keep", "hello"),
    ],
    holds=["the kite is blue now", "Ann lives in Rome", SnapshotMemory("9", "gone", "S01", "archived")],
    before=[point("a", "the kite is red"), point("b", "Bob has a dog")],
    new=[point("c", "Ann lives in Rome")],
    update=[point("d", "the kite is blue", "the kite is red")],
    interference=[point("e", "kites can swim")],
)


def test_a_session_is_judged_by_what_it_wrote_and_what_it_holds() -> None:
    """Recall and correctness see written texts, updates and interference see all active items."""
    scripted = Scripted(best)
    judge(scripted, [SESSION], [])
    mine = ("Ann lives in Rome", "the kite is blue")
    wrote = ("the kite is blue now", "Ann lives in Rome")
    assert scripted.asked == [
        RecallQuestion(mine, (False, True), wrote),
        CorrectnessQuestion(mine, ("the kite is red", "Bob has a dog"), wrote),
        UpdateQuestion("the kite is blue", ("the kite is red",), wrote),
        InterferenceQuestion("kites can swim", wrote),
    ]


def test_a_question_is_judged_by_its_answer_its_citations_and_what_was_found() -> None:
    scripted = Scripted(best)
    judge(scripted, [], [question(evidence=["e"], cited=["c"], retrieved=["f", "g"])])
    assert scripted.asked == [
        AnswerQuestion("What is it?", "a red kite", "a red kite", ("e",)),
        EvidenceQuestion(("e",), ("c",)),
        EvidenceQuestion(("e",), ("f", "g")),
    ]


def test_equal_questions_are_judged_once() -> None:
    """Equal questions to the judge cost one call, for example if all retrieved items are cited."""
    scripted = Scripted(best)
    row = question(evidence=["e"], cited=["c"], retrieved=["c"])
    scores = judge(scripted, [], [row, row])
    assert [matter.kind for matter in scripted.asked] == ["answer", "evidence"]
    assert len(scores) == 6
    assert {score.value for score in scores} == {1.0}


def test_parts_name_sessions_points_and_questions() -> None:
    """The second of equal point ids gets ~2, a missing id becomes the number. Questions are numbered per checkpoint."""
    update = [point("m", "one"), point("m", "two"), {"content": "three"}, "four"]
    rows = [session("S01", wrote=["x"], update=update), session("S02", wrote=["x"], interference=["i"])]
    questions = [question(checkpoint=name, generated=name) for name in ("c", "d", "c")]
    scores = judge(Scripted(best), rows, questions)
    parts = {metric: [s.part for s in scores if s.metric == metric] for metric in ("update", "interference")}
    assert parts["update"] == ["S01/m", "S01/m~2", "S01/3", "S01/4"]
    assert parts["interference"] == ["S02/1"]
    assert [score.part for score in scores if score.metric == "recall"] == ["S01", "S02"]
    assert [score.part for score in scores if score.metric == "answer"] == ["c/1", "d/1", "c/2"]
    metric_parts = [(score.metric, score.part) for score in scores]
    assert len(set(metric_parts)) == len(metric_parts)


def test_values_are_what_the_labels_are_worth() -> None:
    """`both` counts 0.5, `hallucination` is its own metric, and update recall counts only updates."""
    says = {
        "recall": ("covered", "missed"),
        "correctness": ("hallucination", "correct"),
        "update": ("both",),
        "interference": ("memorized",),
        "answer": ("Hallucination",),
        "evidence": ("missed", "covered"),
    }
    scripted = Scripted(lambda matter: Verdict(says[matter.kind], "so"))
    scores = judge(scripted, [SESSION], [question(evidence=["a", "b"], cited=["c"], retrieved=["d"])])
    assert values(scores) == {
        ("S02", "recall"): 0.5,
        ("S02", "update_recall"): 0.0,
        ("S02", "correctness"): 0.5,
        ("S02", "hallucination"): 0.5,
        ("S02/d", "update"): 0.5,
        ("S02/e", "interference"): 0.0,
        ("c/1", "answer"): 0.0,
        ("c/1", "evidence"): 0.5,
        ("c/1", "retrieved_evidence"): 0.5,
    }
    assert {score.reason for score in scores} == {"so"}


def test_questions_that_need_no_judge_are_not_asked() -> None:
    """No gold: not applicable. No written texts: 0. Empty answer: omission. Empty snapshot: nothing stored."""
    scripted = Scripted(best)
    gold: dict[str, Any] = {
        "new": [point("a", "x")],
        "update": [point("b", "y")],
        "interference": [point("c", "z")],
    }
    questions = [question(generated=" \n", evidence=["e"]), question(generated="")]
    scores = judge(scripted, [session("S01"), session("S02", **gold)], questions)
    assert scripted.asked == []
    nothing = "not_applicable"
    assert values(scores) == {
        ("S01", "recall"): nothing,
        ("S01", "update_recall"): nothing,
        ("S01", "correctness"): nothing,
        ("S01", "hallucination"): nothing,
        ("S02", "recall"): 0.0,
        ("S02", "update_recall"): 0.0,
        ("S02", "correctness"): nothing,
        ("S02", "hallucination"): nothing,
        ("S02/b", "update"): 0.0,
        ("S02/c", "interference"): 1.0,
        ("c/1", "answer"): 0.0,
        ("c/1", "evidence"): 0.0,
        ("c/1", "retrieved_evidence"): 0.0,
        ("c/2", "answer"): 0.0,
        ("c/2", "evidence"): nothing,
        ("c/2", "retrieved_evidence"): nothing,
    }
    assert {score.data["labels"][0] for score in scores if score.metric == "answer"} == {"Omission"}


@pytest.mark.parametrize(
    "wrong",
    [
        invalid("no verdict: half of it"),
        Verdict(("covered",), "too few"),
        Verdict(("covered", "perhaps"), "a label that there is not"),
    ],
)
def test_an_invalid_verdict_has_no_value(wrong: Verdict) -> None:
    """The score has the reason and the denominator. Other scores are unchanged."""
    plain = judge(Scripted(best), [SESSION], [question()])
    scores = judge(Scripted(lambda matter: wrong if matter.kind == "recall" else best(matter)), [SESSION], [question()])
    failed = [score for score in scores if score.status == "invalid"]
    assert [(score.metric, score.value, score.data["denominator"]) for score in failed] == [
        ("recall", None, 2),
        ("update_recall", None, 1),
    ]
    assert all(score.reason.startswith("no verdict") for score in failed)
    assert [score for score in scores if score not in failed] == [
        score for score in plain if score.metric not in ("recall", "update_recall")
    ]


def test_a_failed_judge_call_raises_and_gives_no_score() -> None:
    """A later start can ask again, because no score was written."""

    def fails(_: JudgeQuestion) -> Verdict:
        raise ModelError(Failure("rate_limit", "told so"))

    with pytest.raises(ModelError):
        judge(Scripted(fails), [], [question()])


def test_votes_are_kept() -> None:
    """Only the score of the first metric has the votes, so that a verdict counts once."""
    votes = (("covered", "missed"), ("covered", "covered"))
    scripted = Scripted(
        lambda matter: (
            Verdict(("covered", "covered"), votes=votes, stable=False) if matter.kind == "recall" else best(matter)
        )
    )
    scores = judge(scripted, [SESSION], [])
    data = only(scores, "recall").data
    assert (data["labels"], data["stable"]) == (["covered", "covered"], False)
    assert data["votes"] == [["covered", "missed"], ["covered", "covered"]]
    assert not {"votes", "stable", "labels"} & set(only(scores, "update_recall").data)


def test_answers_say_what_they_are_about() -> None:
    """For comparisons: sample, type, difficulty, what was said and what was wanted."""
    (answer, *others) = judge(Scripted(best), [], [question(abbrev="MH", difficulty="hard", generated="kite")])
    assert {"type": "MH", "difficulty": "hard", "id": "s"}.items() <= answer.data.items()
    assert (answer.data["answer"], answer.expected, answer.tags) == ("kite", "a red kite", ("MH", "hard"))
    assert all((score.data["type"], score.tags) == ("MH", ("MH", "hard")) for score in others)


def test_a_scorer_is_named_by_its_judge_and_its_gold() -> None:
    """Another judge's scores stand beside; the name is the same, so that runs can be compared."""
    first, second, third = (
        EvalScorer(Scripted(best, name), lambda _: SampleResults([], []), gold).id
        for name, gold in (("a", ""), ("b", ""), ("a", "x"))
    )
    assert len({first, second, third}) == 3
    assert {name.partition("@")[0] for name in (first, second, third)} == {"judged"}
    assert first == EvalScorer(Scripted(best, "a"), lambda _: SampleResults([], [])).id


def test_the_offline_panel_judges_a_sample() -> None:
    """Without a model: what was kept word by word is kept, what was not is not."""
    rows = [
        session(
            "S01",
            wrote=["Ann lives in Rome with three cats"],
            new=[point("a", "Ann lives in Rome"), point("b", "Bob plays the violin in Oslo")],
            interference=[point("c", "Volcanoes erupted near Naples yesterday")],
        )
    ]
    questions = [question("Rome", "Rome", evidence=["Ann lives in Rome"], cited=["Ann lives in Rome"])]
    scores = values(judge(Judge("offline"), rows, questions))
    assert (scores["S01", "recall"], scores["S01/c", "interference"]) == (0.5, 1.0)
    assert (scores["c/1", "answer"], scores["c/1", "evidence"]) == (1.0, 1.0)
    assert scores["c/1", "retrieved_evidence"] == 0.0


def test_words_are_compared_without_a_judge() -> None:
    """F1 and BLEU-1 of every answer under the part that a judge would use; none without a reference."""
    rows = [question("red kite", "a red kite"), question("red kite", "red"), question(" ", "red")]
    scores = scores_of(LexicalScorer(lambda _: sample_answers(rows)))
    by_metric = values(scores)
    assert (by_metric["c/1", "f1"], by_metric["c/1", "bleu1"]) == (1.0, 1.0)
    assert by_metric["c/2", "f1"] == pytest.approx(2 / 3)
    assert by_metric["c/2", "bleu1"] == pytest.approx(0.36787944)
    assert (by_metric["c/3", "f1"], by_metric["c/3", "bleu1"]) == ("not_applicable", "not_applicable")
    assert {score.data["type"] for score in scores} == {"FR"}
