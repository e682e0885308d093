"""A memory's summary: figures over what was judged and over all, by group, with what was left out."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.types import Score
from assay.scoring.questions import AnswerQuestion, JudgeQuestion, Verdict, invalid
from assay.suites.memory_eval.evals import evals
from assay.suites.memory_eval.judging import LexicalScorer
from assay.suites.memory_eval.points import answers
from assay.suites.memory_eval.rows import QaRow, SessionRow
from assay.suites.memory_eval.tally import DIMENSIONS, JUDGED, Tally

from suites.memory_eval.doubles import Scripted, judge, point, question, scores_of, session


def row_of(summary: dict[str, Any], name: str) -> dict[str, Any]:
    """One metric of a summary."""
    (found,) = [metric for metric in summary["metrics"] if metric["metric"] == name]
    return found  # type: ignore[no-any-return]


def add(tally: Tally, cluster: int, sessions: list[SessionRow], asked: list[QaRow], panel: Any) -> None:
    """A sample, judged and compared."""
    scores = judge(panel, sessions, asked)
    found = evals(sessions, asked, scores)
    words: list[Score] = scores_of(LexicalScorer(lambda _: answers(asked)))
    tally.add(cluster, found.sessions, list(zip(asked, found.questions, strict=True)), [*scores, *words])


def says(matter: JudgeQuestion) -> Verdict:
    """Texts are as good as they say: `good` is the best label, `bad` the second, `odd` unreadable."""
    if isinstance(matter, AnswerQuestion):
        texts: tuple[str, ...] = (matter.response,)
    elif matter.kind == "correctness":
        texts = matter.texts
    else:
        named = (getattr(matter, name, ()) for name in ("points", "evidence", "new", "content"))
        texts = next((one,) if isinstance(one, str) else one for one in named if one)
    if any("odd" in text for text in texts):
        return invalid("no verdict: prose")
    return Verdict(tuple(matter.labels["bad" in text] for text in texts))


def two_samples() -> Tally:
    """Sample 0: two uneven sessions and three questions; sample 1: one session that cannot be judged."""
    tally = Tally("m", reference=False)
    first = [
        session("S01", wrote=["good"], new=[point("a", "good")], update=[point("b", "good")]),
        session("S02", wrote=["good", "bad", "bad", "bad"], update=[point("b", "bad"), point("c", "odd")]),
        session("S03", wrote=["bad"], new=[point(str(at), "bad") for at in range(8)]),
        session("S04", interference=[point("a", "good")]),
    ]
    asked = [
        question("good one", "good one", evidence=["good"], cited=["c"], found=["d"]),
        question("good", "bad", evidence=["bad"] * 3, cited=["c"], abbrev="MH", difficulty="hard"),
        question("good", "", abbrev="MH"),
    ]
    add(tally, 0, first, asked, Scripted(says))
    second = [session("S01", wrote=["odd"], new=[point("a", "odd")])]
    add(tally, 1, second, [question(said="odd", evidence=["odd", "x"], cited=["c"])], Scripted(says))
    return tally


def test_the_six_dimensions_come_first_and_have_all_numbers() -> None:
    """Value, numerator, denominator, what is invalid, an interval, and the figure over all."""
    found = two_samples().summary()
    assert [metric["metric"] for metric in found["metrics"]] == [*JUDGED, "f1", "bleu1"]
    assert JUDGED[:6] == DIMENSIONS
    for metric in found["metrics"]:
        assert {"value", "n", "numerator", "denominator", "invalid", "interval", "over_all"} <= set(metric)
        if metric["denominator"]:
            assert metric["value"] == pytest.approx(metric["numerator"] / metric["denominator"])


@pytest.mark.parametrize(
    ("metric", "numerator", "denominator", "invalid", "over_all"),
    [
        ("recall", 1, 2, 2, 1 / 4),
        ("update_recall", 1, 1, 1, 1 / 2),
        ("correctness", 1.25, 3, 1, 1.25 / 4),
        ("hallucination", 1.75, 3, 1, 1.75 / 4),
        ("update", 1.5, 2, 1, 1.5 / 3),
        ("interference", 1, 1, 0, 1.0),
        ("answer", 1, 3, 1, 1 / 4),
        ("answer_hallucination", 1, 3, 1, 1 / 4),
        ("answer_omission", 1, 3, 1, 1 / 4),
        ("evidence", 1, 4, 1, 1 / 6),
        ("evidence_mean", 1, 2, 1, 1 / 3),
        ("retrieved_evidence", 1, 6, 0, 1 / 6),
    ],
)
def test_over_what_was_judged_and_over_all(
    metric: str, numerator: float, denominator: int, invalid: int, over_all: float
) -> None:
    """An invalid judgement is in one denominator and not in the other; evidence is counted by piece."""
    found = row_of(two_samples().summary(), metric)
    assert (found["numerator"], found["denominator"]) == (pytest.approx(numerator), denominator)
    assert (found["invalid"], found["n"]) == (invalid, denominator)
    assert found["over_all"]["value"] == pytest.approx(over_all)


def test_sessions_are_averaged_and_their_counters_stand_beside() -> None:
    """2 of 2 and 0 of 8 are a mean of a half, and 2 of 10 pooled."""
    found = row_of(two_samples().summary(), "recall")
    assert found["value"] == 0.5
    assert found["pooled"] == {"value": 0.2, "numerator": 2, "denominator": 10}
    assert found["left_out"] == {"invalid": 2, "not applicable": 1}
    assert "pooled" not in row_of(two_samples().summary(), "update")


def test_lower_is_better_of_hallucinations_and_omissions_alone() -> None:
    found = two_samples().summary()["metrics"]
    lower = [metric["metric"] for metric in found if not metric["higher_is_better"]]
    assert lower == ["hallucination", "answer_hallucination", "answer_omission"]


def test_scores_are_unmoved_by_a_sample_of_which_nothing_could_be_read() -> None:
    """Every value and interval is that of the sample that could."""
    with_odd, alone = two_samples().summary(), Tally("m", reference=False)
    row = question("good one", "good one")
    add(alone, 0, [session("S01", wrote=["good"], new=[point("a", "good")])], [row], Scripted(says))
    before = alone.summary()
    add(alone, 1, [session("S01", wrote=["odd"], new=[point("a", "odd")])], [], Scripted(says))
    after = alone.summary()
    keys = ("value", "numerator", "denominator", "clusters")
    for one, two in zip(before["metrics"], after["metrics"], strict=True):
        assert [one[key] for key in keys] == [two[key] for key in keys]
    assert before["aggregate"] == after["aggregate"] | {"baseline_id": "m"}
    assert row_of(with_odd, "answer")["clusters"] == 1


def test_samples_are_the_clusters() -> None:
    """Ten equal answers of one sample say no more than one: two samples, two clusters."""
    tally = Tally("m", reference=False)
    for cluster, said in enumerate(("good", "bad", "good")):
        add(tally, cluster, [], [question("good", said)] * 10, Scripted(says))
    found = row_of(tally.summary(), "answer")
    assert (found["n"], found["clusters"]) == (30, 3)
    assert found["value"] == pytest.approx(2 / 3)
    assert found["stderr"] == pytest.approx(1 / 3)
    assert found["interval"] == (0.0, 1.0)


def test_questions_are_shown_by_type_and_difficulty() -> None:
    """Answers and evidence, with the words; the open vocabulary of the data."""
    found = two_samples().summary()
    assert list(found["types"]) == ["FR", "MH"]
    assert (found["types"]["FR"]["answer"]["value"], found["types"]["FR"]["answer"]["invalid"]) == (1.0, 1)
    assert (found["types"]["MH"]["answer"]["numerator"], found["types"]["MH"]["answer"]["n"]) == (0, 2)
    assert (found["types"]["MH"]["evidence"]["value"], found["types"]["MH"]["evidence"]["n"]) == (0.0, 3)
    assert {name: one["answer"]["n"] for name, one in found["difficulties"].items()} == {"easy": 2, "hard": 1}
    assert found["types"]["FR"]["f1"]["n"] == 2
    assert "recall" not in found["types"]["FR"]


def test_the_documents_aggregate_stands_inside() -> None:
    found = two_samples().summary()["aggregate"]
    assert found["baseline_id"] == "m"
    assert found["memory_recall"]["avg_recall"] == 0.5
    assert (found["question_answering"]["num_total"], found["question_answering"]["num_valid"]) == (4, 3)
    assert found["evidence_coverage"] == {"hit_rate": 0.25, "num_covered": 1, "num_total": 4}


def test_without_a_judge_there_are_words_alone() -> None:
    """No row of a judge that said nothing."""
    tally, row = Tally("m", reference=True), question()
    found = evals([], [row], [])
    scores = scores_of(LexicalScorer(lambda _: answers([row])))
    tally.add(0, [], [(row, found.questions[0])], scores)
    summary = tally.summary()
    assert (summary["alias"], summary["reference"]) == ("m", True)
    assert [(one["metric"], one["value"]) for one in summary["metrics"]] == [("f1", 1.0), ("bleu1", 1.0)]


def test_a_dimension_without_items_is_null() -> None:
    """Shown as a dash; in the document's aggregate it is 0.0."""
    tally = Tally("m", reference=False)
    add(tally, 0, [], [question("good", "good")], Scripted(says))
    found = row_of(tally.summary(), "interference")
    assert (found["value"], found["n"], found["over_all"]["value"]) == (None, 0, None)
    assert tally.summary()["aggregate"]["interference_rejection"]["score"] == 0.0


def test_flaky_verdicts_are_counted_where_there_were_votes() -> None:
    votes = (("Correct",), ("Omission",), ("Correct",))

    def voted(matter: JudgeQuestion) -> Verdict:
        return Verdict(("Correct",), votes=votes, stable="2" not in getattr(matter, "response", ""))

    tally = Tally("m", reference=False)
    add(tally, 0, [], [question(said="1"), question(said="2"), question(said="3")], Scripted(voted))
    assert tally.summary()["flaky"] == {"answer": {"flaky": 1, "n": 3}}
    assert two_samples().summary()["flaky"] == {}


def test_counts_failures_seconds_and_tokens() -> None:
    tally = two_samples()
    tally.fail("conv-9", "it fell")
    for seconds in (1.0, 3.0, 2.0):
        tally.use("storage", seconds, (5, 2))
    tally.use("judge", None, (7, 1))
    tally.use("answer", 0.5, None)
    tally.count({"dropped": 2, "loose": True})
    tally.count({"error": "no answer"})
    found = tally.summary()
    assert found["failures"] == [{"sample_id": "conv-9", "reason": "it fell"}]
    assert found["counts"] == {
        "samples": 2,
        "failed": 1,
        "sessions": 5,
        "questions": 4,
        "unanswered": 1,
        "errors": 1,
        "citations": 3,
        "dropped_citations": 2,
        "replies_without_json": 1,
    }
    assert list(found["seconds"]) == ["storage", "retrieval", "answer", "judge"]
    assert found["seconds"]["storage"] == {"n": 3, "p50": 2.0, "p95": 3.0}
    assert found["seconds"]["judge"]["n"] == 0
    assert found["tokens"] == {"storage": {"input": 15, "output": 6}, "judge": {"input": 7, "output": 1}}
