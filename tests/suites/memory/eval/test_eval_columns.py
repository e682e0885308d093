"""Building evals from scores: labels are counted, and unjudged values are null with a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct

from assay.scoring.questions import JudgeQuestion, UpdateQuestion, Verdict, invalid
from assay.suites.memory.eval.eval_columns import Aggregate, qa_eval, sample_evals, session_eval
from assay.suites.memory.eval.result_lines import (
    MemoryLabel,
    PointLabel,
    QaEval,
    QaLine,
    SampleResults,
    SessionEval,
    SessionLine,
)
from assay.suites.memory.eval.scorers import NO_POINTS

from suites.memory.eval.doubles import Scripted, judge, point, question, session

SESSION = session(
    "S02",
    wrote=["w1", "w2", "w3", "w4"],
    new=[point("a", "n1"), point("b", "n2"), point("c", "n3")],
    update=[point("d", "u1", "o1"), point("d", "u2", "o2"), point("f", "u3")],
    interference=[point("g", "i1"), point("h", "i2")],
)
SAYS = {
    "recall": ("covered", "missed", "covered", "covered", "missed", "missed"),
    "correctness": ("correct", "hallucination", "irrelevant", "correct"),
    "answer": ("Hallucination",),
    "evidence": ("covered", "missed"),
}
OF_POINTS = {"u1": "updated", "u2": "both", "u3": "outdated", "i1": "rejected", "i2": "memorized"}


def says(matter: JudgeQuestion) -> Verdict:
    """Return verdicts with all labels."""
    labels = SAYS.get(matter.kind)
    if labels is None:
        content = matter.new if isinstance(matter, UpdateQuestion) else getattr(matter, "content", "")
        labels = (OF_POINTS[content],)
    return Verdict(labels, f"because of {matter.kind}")


def without(*kinds: str) -> Callable[[JudgeQuestion], Verdict]:
    """Return the same verdicts, invalid for these kinds of questions or these points."""

    def told(matter: JudgeQuestion) -> Verdict:
        named = {matter.kind, getattr(matter, "new", ""), getattr(matter, "content", "")}
        return invalid("no verdict: prose") if named & set(kinds) else says(matter)

    return told


def made(told: Callable[[JudgeQuestion], Verdict], row: SessionLine = SESSION) -> SessionEval:
    """Return the eval of one session."""
    return session_eval(row, judge(Scripted(told), [row], []))


def answered(told: Callable[[JudgeQuestion], Verdict], row: QaLine) -> QaEval:
    """Return the eval of one question."""
    return qa_eval(row, judge(Scripted(told), [], [row]))


def part(evaluation: Struct, prefix: str) -> dict[str, object]:
    """Return the fields with this prefix."""
    return {name: getattr(evaluation, name) for name in evaluation.__struct_fields__ if name.startswith(prefix)}


def test_a_session_counts_its_labels() -> None:
    assert made(says) == SessionEval(
        session_id="S02",
        recall=0.5,
        covered_count=3,
        num_gold=6,
        update_recall=1 / 3,
        update_covered_count=1,
        update_total=3,
        recall_reasoning="because of recall",
        correctness_rate=0.5,
        num_memories=4,
        num_correct=2,
        num_hallucination=1,
        num_irrelevant=1,
        correctness_reasoning="because of correctness",
        correctness_records=[MemoryLabel(number, label) for number, label in enumerate(SAYS["correctness"], 1)],
        update_score=0.5,
        update_num_updated=1,
        update_num_both=1,
        update_num_outdated=1,
        update_total_items=3,
        update_records=[
            PointLabel("d", "updated", "because of update"),
            PointLabel("d", "both", "because of update"),
            PointLabel("f", "outdated", "because of update"),
        ],
        interference_score=0.5,
        interference_num_rejected=1,
        interference_num_memorized=1,
        interference_total_items=2,
        interference_records=[
            PointLabel("g", "rejected", "because of interference"),
            PointLabel("h", "memorized", "because of interference"),
        ],
    )


def test_the_order_of_scores_does_not_matter() -> None:
    """Points are matched by name."""
    scores = judge(Scripted(says), [SESSION], [])
    assert session_eval(SESSION, scores[::-1]) == session_eval(SESSION, scores)


def test_a_failed_recall_keeps_its_gold() -> None:
    """The count of covered points is null like the rate, not 0. The number of gold points stays."""
    evaluation = made(without("recall"))
    assert (evaluation.recall, evaluation.covered_count, evaluation.num_gold) == (None, None, 6)
    assert (evaluation.update_recall, evaluation.update_covered_count, evaluation.update_total) == (
        None,
        None,
        3,
    )
    assert evaluation.recall_reasoning == "no verdict: prose"
    assert part(evaluation, "correctness") == part(made(says), "correctness")


def test_labels_of_an_invalid_verdict_do_not_count() -> None:
    """An invalid verdict may still carry labels."""
    labels = ("covered",) * 6
    evaluation = made(lambda m: Verdict(labels, "x", "invalid") if m.kind == "recall" else says(m))
    assert (evaluation.recall, evaluation.covered_count, evaluation.update_covered_count) == (
        None,
        None,
        None,
    )


def test_a_failed_correctness_keeps_its_memories() -> None:
    """Every record has a null label, and nothing is counted."""
    evaluation = made(without("correctness"))
    assert (evaluation.correctness_rate, evaluation.num_memories) == (None, 4)
    counts = (evaluation.num_correct, evaluation.num_hallucination, evaluation.num_irrelevant)
    assert counts == (None, None, None)
    assert evaluation.correctness_records == [MemoryLabel(number, None) for number in (1, 2, 3, 4)]
    assert evaluation.correctness_reasoning == "no verdict: prose"


def test_a_failed_point_leaves_the_denominator() -> None:
    """Its record stays, with the reason of the failure as `reasoning`, and the total counts it."""
    evaluation = made(without("u3", "i2"))
    assert (evaluation.update_score, evaluation.update_num_outdated, evaluation.update_total_items) == (
        0.75,
        0,
        3,
    )
    assert evaluation.update_records[2] == PointLabel("f", None, "no verdict: prose")
    assert (evaluation.interference_score, evaluation.interference_total_items) == (1.0, 2)
    assert evaluation.interference_records[1] == PointLabel("h", None, "no verdict: prose")
    nothing = made(without("update", "interference"))
    assert (nothing.update_score, nothing.interference_score) == (None, None)


@pytest.mark.parametrize(
    ("row", "recall", "correctness"),
    [
        (session("S01"), None, None),
        (session("S01", new=[point("a", "x")]), 0.0, None),
        (session("S01", new=[point("a", " ")]), None, None),
    ],
)
def test_nothing_to_judge_is_null(row: SessionLine, recall: float | None, correctness: float | None) -> None:
    """Without gold recall is null. With gold and no texts recall is 0 and correctness is null."""
    evaluation = made(says, row)
    assert (evaluation.recall, evaluation.correctness_rate) == (recall, correctness)
    assert (evaluation.update_score, evaluation.interference_score, evaluation.update_recall) == (
        None,
        None,
        None,
    )


def test_a_question_counts_its_evidence() -> None:
    row = question(evidence=["a", "b"], cited=["x", "y", "z"], retrieved=["x"])
    assert answered(says, row) == QaEval(
        answer_label="Hallucination",
        answer_reasoning="because of answer",
        answer_is_valid=True,
        evidence_hit_rate=0.5,
        evidence_covered_count=1,
        num_evidence=2,
        evidence_reasoning="because of evidence",
        num_cited_memories=3,
    )


def test_the_hit_rate_covers_citations_only() -> None:
    """Retrieved but uncited items do not count."""
    evaluation = answered(says, question(evidence=["a", "b"], retrieved=["x"]))
    assert (evaluation.evidence_hit_rate, evaluation.evidence_covered_count, evaluation.num_evidence) == (
        0.0,
        0,
        2,
    )


def test_failed_judgements_of_a_question_are_null() -> None:
    evaluation = answered(without("answer", "evidence"), question(evidence=["a", "b"], cited=["x"]))
    assert (evaluation.answer_label, evaluation.answer_is_valid, evaluation.answer_reasoning) == (
        None,
        False,
        "no verdict: prose",
    )
    assert (evaluation.evidence_hit_rate, evaluation.evidence_covered_count, evaluation.num_evidence) == (
        None,
        None,
        2,
    )


def test_memories_of_a_sample_without_points_are_neither_correct_nor_made_up() -> None:
    """Without points every memory would look made up. A session of a sample with points elsewhere is judged."""
    empty = session("S01", wrote=["w1", "w2"])
    evaluation = made(says, empty)
    assert (evaluation.correctness_rate, evaluation.num_memories, evaluation.num_correct) == (None, 2, None)
    assert evaluation.correctness_reasoning == NO_POINTS
    judged = judge(Scripted(lambda _: Verdict(("correct", "correct"), "x")), [empty, SESSION], [])
    values = [score.value for score in judged if (score.metric, score.part) == ("correctness", "S01")]
    assert values == [1.0]


def test_points_without_any_verdict_have_no_counts() -> None:
    """With one verdict the others are left out, and the counts are those of the verdict."""
    evaluation = made(without("u1", "u2", "u3", "i1", "i2"))
    assert (evaluation.update_score, evaluation.update_num_updated, evaluation.update_total_items) == (
        None,
        None,
        None,
    )
    assert (evaluation.interference_score, evaluation.interference_num_rejected) == (None, None)
    assert evaluation.interference_total_items is None


def test_without_gold_evidence_there_is_no_hit_rate() -> None:
    evaluation = answered(says, question(cited=["x"]))
    assert (evaluation.evidence_hit_rate, evaluation.num_evidence, evaluation.num_cited_memories) == (
        None,
        0,
        1,
    )


def test_an_empty_answer_is_a_valid_omission() -> None:
    """The judge is not asked."""
    evaluation = answered(without("answer"), question(generated=""))
    assert (evaluation.answer_label, evaluation.answer_is_valid) == ("Omission", True)


def test_without_scores_everything_is_null() -> None:
    """As with --no-judge: null, not 0 and not an omission."""
    session, answer = session_eval(SESSION, []), qa_eval(question(evidence=["a"]), [])
    assert (session.recall, session.correctness_rate, session.update_score, session.interference_score) == (None,) * 4
    assert (answer.answer_label, answer.answer_is_valid, answer.evidence_hit_rate) == (None, False, None)
    assert "not judged" in answer.answer_reasoning


def test_a_sample_gives_every_row_its_own_scores() -> None:
    """Even if a checkpoint has the id of a session, session ids repeat, or ids contain slashes."""
    rows = [
        session("S/1", wrote=["w1"], update=[point("1", "u1"), point("x/1", "u2")]),
        session("S/1", wrote=["w1"], update=[point("1", "u3")]),
    ]
    questions = [question(checkpoint="S/1", generated="x"), question(checkpoint="S/1", generated="")]
    told = SAYS | {"recall": ("covered", "missed"), "correctness": ("correct",)}

    def one(matter: JudgeQuestion) -> Verdict:
        labels = told.get(matter.kind) or (OF_POINTS[getattr(matter, "new", "")],)
        return Verdict(labels[: matter.count])

    evals = sample_evals(SampleResults(rows, questions), judge(Scripted(one), rows, questions))
    assert [[record.label for record in each.update_records] for each in evals.sessions] == [
        ["updated", "both"],
        ["outdated"],
    ]
    assert [each.recall for each in evals.sessions] == [0.5, 1.0]
    assert [each.answer_label for each in evals.questions] == ["Hallucination", "Omission"]


def test_a_failed_session_changes_only_the_totals_of_the_aggregate() -> None:
    """Its points were asked about, and have no label."""
    first, second = Aggregate(), Aggregate()
    for total in (first, second):
        total.add_session(made(says))
    second.add_session(made(without("recall", "correctness", "update", "interference")))
    expected, found = first.metrics("m"), second.metrics("m")
    for section in ("update_handling", "interference_rejection"):
        assert found[section].pop("num_total") == 2 * expected[section].pop("num_total")
    assert found == expected
