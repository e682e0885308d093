"""The report entry of a memory: figures over valid verdicts and over all, groups, and counts."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.report import Entry, Metric
from assay.core.types import Record, Score
from assay.core.usage import PurposeUsage
from assay.scoring.questions import AnswerQuestion, JudgeQuestion, Verdict, invalid
from assay.suites.memory.eval.eval_columns import Aggregate, sample_evals
from assay.suites.memory.eval.result_lines import QaLine, SampleResults, SessionLine, sample_answers
from assay.suites.memory.eval.scorers import LexicalScorer
from assay.suites.memory.eval.tally import DIMENSIONS, JUDGED, MemoryEvalTally

from suites.memory.eval.doubles import Scripted, judge, point, question, scores_of, session


def metric_of(entry: Entry, name: str) -> Metric:
    """One metric of an entry."""
    metric = entry.metric(name)
    assert metric is not None
    return metric


def add(
    tally: MemoryEvalTally, cluster: int, sessions: list[SessionLine], questions: list[QaLine], scripted: Any
) -> None:
    """A sample, judged and compared."""
    scores = judge(scripted, sessions, questions)
    words: list[Score] = scores_of(LexicalScorer(lambda _: sample_answers(questions)))
    tally.add_sample(cluster, len(sessions), questions, [], [*scores, *words])


def says(matter: JudgeQuestion) -> Verdict:
    """Texts are as good as they say: `good` is the best label, `bad` the second, `odd` unreadable."""
    if isinstance(matter, AnswerQuestion):
        texts: tuple[str, ...] = (matter.response,)
    elif matter.kind == "correctness":
        texts = matter.texts
    else:
        fields = (getattr(matter, name, ()) for name in ("points", "evidence", "new", "content"))
        texts = next((field,) if isinstance(field, str) else field for field in fields if field)
    if any("odd" in text for text in texts):
        return invalid("no verdict: prose")
    return Verdict(tuple(matter.labels["bad" in text] for text in texts))


FIRST = (
    [
        session("S01", wrote=["good"], new=[point("a", "good")], update=[point("b", "good")]),
        session("S02", wrote=["good", "bad", "bad", "bad"], update=[point("b", "bad"), point("c", "odd")]),
        session("S03", wrote=["bad"], new=[point(str(at), "bad") for at in range(8)]),
        session("S04", interference=[point("a", "good")]),
    ],
    [
        question("good one", "good one", evidence=["good"], cited=["c"], retrieved=["d"]),
        question("good", "bad", evidence=["bad"] * 3, cited=["c"], abbrev="MH", difficulty="hard"),
        question("good", "", abbrev="MH"),
    ],
)
SECOND = (
    [session("S01", wrote=["odd"], new=[point("a", "odd")])],
    [question(generated="odd", evidence=["odd", "x"], cited=["c"])],
)


def two_samples() -> MemoryEvalTally:
    """Sample 0: two uneven sessions and three questions; sample 1: one session that cannot be judged."""
    tally = MemoryEvalTally("m")
    for cluster, (sessions, questions) in enumerate((FIRST, SECOND)):
        add(tally, cluster, sessions, questions, Scripted(says))
    return tally


def aggregate(*samples: tuple[list[SessionLine], list[QaLine]]) -> dict[str, Any]:
    """The format's own numbers of these samples."""
    total = Aggregate()
    for sessions, questions in samples:
        evals = sample_evals(SampleResults(sessions, questions), judge(Scripted(says), sessions, questions))
        for session_eval in evals.sessions:
            total.add_session(session_eval)
        for qa_eval in evals.questions:
            total.add_question(qa_eval)
    return total.metrics("m")


def test_the_six_dimensions_come_first_and_have_all_numbers() -> None:
    """Value, numerator, denominator, an interval, and the figure over all."""
    metrics = two_samples().entry().metrics
    assert [metric.name for metric in metrics] == [*JUDGED, "f1", "bleu1"]
    assert list(JUDGED)[:6] == list(DIMENSIONS)
    for metric in metrics:
        assert metric.numerator is not None
        assert "over_all" in metric.beside
        if metric.denominator:
            assert metric.value == pytest.approx(metric.numerator / metric.denominator)


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
        ("evidence", 1, 4, 2, 1 / 6),
        ("evidence_mean", 1, 2, 1, 1 / 3),
        ("retrieved_evidence", 1, 6, 0, 1 / 6),
    ],
)
def test_over_what_was_judged_and_over_all(
    metric: str, numerator: float, denominator: int, invalid: int, over_all: float
) -> None:
    """An invalid judgement is in one denominator and not in the other; evidence is counted by piece."""
    result = metric_of(two_samples().entry(), metric)
    assert result.numerator == pytest.approx(numerator)
    assert result.denominator == denominator
    assert result.left_out.get("invalid", 0) == invalid
    assert result.beside["over_all"].value == pytest.approx(over_all)


def test_sessions_are_averaged_and_their_counters_stand_beside() -> None:
    """2 of 2 and 0 of 8 are a mean of a half, and 2 of 10 pooled."""
    entry = two_samples().entry()
    recall = metric_of(entry, "recall")
    assert recall.value == 0.5
    pooled = recall.beside["pooled"]
    assert (pooled.value, pooled.numerator, pooled.denominator) == (0.2, 2, 10)
    assert recall.left_out == {"invalid": 2, "not applicable": 1}
    assert "pooled" not in metric_of(entry, "update").beside


def test_lower_is_better_of_hallucinations_and_omissions_alone() -> None:
    metrics = two_samples().entry().metrics
    lower = [metric.name for metric in metrics if not metric.higher_is_better]
    assert lower == ["hallucination", "answer_hallucination", "answer_omission"]


def test_scores_are_unmoved_by_a_sample_of_which_nothing_could_be_read() -> None:
    """Every value and interval is that of the sample that could."""
    tally = MemoryEvalTally("m")
    readable = (
        [session("S01", wrote=["good"], new=[point("a", "good")])],
        [question("good one", "good one")],
    )
    unreadable = ([session("S01", wrote=["odd"], new=[point("a", "odd")])], list[QaLine]())
    add(tally, 0, *readable, Scripted(says))
    before = tally.entry()
    add(tally, 1, *unreadable, Scripted(says))
    after = tally.entry()
    for first, second in zip(before.metrics, after.metrics, strict=True):
        numbers = [(each.value, each.numerator, each.denominator, each.clusters) for each in (first, second)]
        assert numbers[0] == numbers[1]
    assert aggregate(readable) == aggregate(readable, unreadable)
    assert metric_of(two_samples().entry(), "answer").clusters == 1


def test_samples_are_the_clusters() -> None:
    """Ten equal answers of one sample say no more than one: two samples, two clusters."""
    tally = MemoryEvalTally("m")
    for cluster, answer in enumerate(("good", "bad", "good")):
        add(tally, cluster, [], [question("good", answer)] * 10, Scripted(says))
    metric = metric_of(tally.entry(), "answer")
    assert (metric.denominator, metric.clusters) == (30, 3)
    assert metric.value == pytest.approx(2 / 3)
    assert metric.stderr == pytest.approx(1 / 3)
    assert metric.interval == pytest.approx((0.0, 1.0), abs=0.01)
    assert (metric.few_clusters, metric.warning[:19]) == (True, "too few clusters: 3")


def test_questions_are_shown_by_type_and_difficulty() -> None:
    """Answers and evidence, with the words; the open vocabulary of the data."""
    slices = two_samples().entry().slices
    by_type = {part.name: part for part in slices if part.by == "question type"}
    metrics = {name: {metric.name: metric for metric in part.metrics} for name, part in by_type.items()}
    assert list(metrics) == ["FR", "MH"]
    assert (metrics["FR"]["answer"].value, metrics["FR"]["answer"].left_out) == (1.0, {"invalid": 1})
    assert (metrics["MH"]["answer"].numerator, metrics["MH"]["answer"].denominator) == (0, 2)
    assert (metrics["MH"]["evidence"].value, metrics["MH"]["evidence"].denominator) == (0.0, 3)
    assert metrics["FR"]["f1"].denominator == 2
    assert "recall" not in metrics["FR"]
    answers = {part.name: part.metrics[0] for part in slices if part.by == "difficulty"}
    assert {name: (metric.name, metric.denominator) for name, metric in answers.items()} == {
        "easy": ("answer", 2),
        "hard": ("answer", 1),
    }


def test_the_documents_aggregate_has_its_own_numbers() -> None:
    numbers = aggregate(FIRST, SECOND)
    assert numbers["baseline_id"] == "m"
    assert numbers["memory_recall"]["avg_recall"] == 0.5
    assert (numbers["question_answering"]["num_total"], numbers["question_answering"]["num_valid"]) == (4, 3)
    assert numbers["evidence_coverage"] == {"hit_rate": 0.25, "num_covered": 1, "num_total": 6}


def test_without_a_judge_there_are_words_alone() -> None:
    """No row of a judge that said nothing."""
    tally, row = MemoryEvalTally("m", "Memory", reference=True), question()
    tally.add_sample(0, 0, [row], [], scores_of(LexicalScorer(lambda _: sample_answers([row]))))
    entry = tally.entry()
    assert (entry.name, entry.title, entry.reference) == ("m", "Memory", True)
    assert [(metric.name, metric.value) for metric in entry.metrics] == [("f1", 1.0), ("bleu1", 1.0)]
    assert [metric.name for metric in entry.slices[0].metrics] == ["f1", "bleu1"]


def test_a_dimension_without_items_was_not_measured() -> None:
    """Shown as a dash; in the document's aggregate it is 0.0."""
    tally = MemoryEvalTally("m")
    questions = [question("good", "good")]
    add(tally, 0, [], questions, Scripted(says))
    metric = metric_of(tally.entry(), "interference")
    assert (metric.value, metric.denominator, metric.beside["over_all"].value) == (None, 0, None)
    assert aggregate(([], questions))["interference_rejection"]["score"] == 0.0


def test_flaky_verdicts_are_counted_where_there_were_votes() -> None:
    votes = (("Correct",), ("Omission",), ("Correct",))

    def voted(matter: JudgeQuestion) -> Verdict:
        return Verdict(("Correct",), votes=votes, stable="2" not in getattr(matter, "response", ""))

    tally = MemoryEvalTally("m")
    add(
        tally,
        0,
        [],
        [question(generated="1"), question(generated="2"), question(generated="3")],
        Scripted(voted),
    )
    (table,) = tally.entry().tables
    assert (table.name, table.rows) == ("votes", [["question answering", 3, 1]])
    assert two_samples().entry().tables == []


def record(kind: str, **data: Any) -> Record:
    return Record(0, "k", "set", "m", 1, kind, data=data)


def test_counts_failures_seconds_and_tokens() -> None:
    tally = two_samples()
    tally.add_failure(4, "conv-9", "it fell")
    records = [record("session", seconds=seconds) for seconds in (1.0, 3.0, 2.0)]
    records += [
        record("answer", search_seconds=0.25, answer_seconds=0.5, dropped=2, loose=True),
        record("answer", search_seconds=0.25, error="no answer"),
        record("answer", search_seconds=0.0, error="own.search: no", search_failed=True),
        record("used", usage={"build": PurposeUsage(calls=3, input_tokens=15, output_tokens=6)}),
    ]
    tally.add_sample(2, 0, [], records, [])
    assert tally.counts == {
        "samples": 3,
        "failed": 1,
        "sessions": 5,
        "questions": 4,
        "unanswered": 1,
        "errors": 2,
        "failed_searches": 1,
        "citations": 3,
        "dropped_citations": 2,
        "replies_without_json": 1,
    }
    entry = tally.entry()
    (failures,) = entry.examples
    assert failures.total == 1
    assert [(example.label, example.index, example.reason) for example in failures.shown] == [
        ("sample conv-9", 4, "it fell")
    ]
    (stages,) = entry.tables
    assert stages.columns == [
        "stage",
        "operations",
        "calls",
        "tokens in",
        "tokens out",
        "seconds",
        "p50 ms",
        "p95 ms",
    ]
    assert stages.rows == [
        ["build", 3, 3, 15, 6, 6.0, 2000.0, pytest.approx(2900.0)],
        ["retrieve", 2, 0, None, None, 0.5, 250.0, 250.0],
        ["answer", 1, 0, None, None, 0.5, 500.0, 500.0],
    ]
