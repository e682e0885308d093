"""The aggregate file: the counters of the format's description give its numbers; null values are left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as some
from msgspec.structs import replace

from assay.suites.memory.eval.eval_columns import Aggregate, aggregate_records
from assay.suites.memory.eval.result_lines import MemoryLabel, QaEval, SessionEval, encode

from suites.memory.eval.doubles import GOLDEN, question, session

PRINTED = json.loads((GOLDEN / "aggregate_metrics.json").read_bytes())


def total_of(sessions: list[dict[str, Any]], questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the aggregate of these evals."""
    total = Aggregate()
    for each in sessions:
        total.add_session(SessionEval(session_id="S", **each))
    for each in questions:
        total.add_question(QaEval(**each))
    return total.metrics("FUMemory")


def printed_sessions() -> list[dict[str, Any]]:
    """Return 110 sessions whose counters add up to those in the format's description."""
    sessions = []
    for number in range(110):
        gold, covered = 5 if number < 5 else 4, 3 if number < 100 else 2
        correct, made_up = (8, 1) if number < 96 else (9, 0)
        sessions.append(
            {
                "recall": covered / gold,
                "covered_count": covered,
                "num_gold": gold,
                "correctness_rate": correct / 10,
                "num_memories": 10,
                "num_correct": correct,
                "num_hallucination": made_up,
                "num_irrelevant": 1,
            }
        )
    sessions[0] |= {"update_num_updated": 50, "update_num_both": 18, "update_num_outdated": 10}
    sessions[1] |= {"update_num_updated": 2, "update_num_outdated": 5}
    return sessions


def printed_questions() -> list[dict[str, Any]]:
    """Return 990 questions with one piece of evidence each."""
    labels = ["Correct"] * 574 + ["Hallucination"] * 218 + ["Omission"] * 198
    return [
        {
            "answer_label": label,
            "answer_is_valid": True,
            "evidence_hit_rate": float(number < 425),
            "evidence_covered_count": int(number < 425),
            "num_evidence": 1,
        }
        for number, label in enumerate(labels)
    ]


def test_the_keys_and_their_order_are_the_documents() -> None:
    """The same holds for an aggregate without any evals."""
    empty = Aggregate().metrics("FUMemory")
    for aggregate in (empty, total_of(printed_sessions(), printed_questions())):
        assert list(aggregate) == list(PRINTED)
        for name, inner in PRINTED.items():
            if isinstance(inner, dict):
                assert list(aggregate[name]) == list(inner)


@pytest.mark.parametrize(
    ("dimension", "key", "value"),
    [
        ("memory_recall", "avg_recall", (5 * 3 / 5 + 95 * 3 / 4 + 10 * 2 / 4) / 110),
        ("memory_recall", "total_covered", 320),
        ("memory_recall", "total_gold", 445),
        ("memory_recall", "num_sessions_with_recall", 110),
        ("update_handling", "num_updated", 52),
        ("update_handling", "num_both", 18),
        ("update_handling", "num_outdated", 15),
        ("update_handling", "num_total", 85),
        ("update_handling", "score", (52 + 0.5 * 18) / 85),
        ("interference_rejection", "score", 0.0),
        ("interference_rejection", "num_total", 0),
        ("question_answering", "correct_ratio", 574 / 990),
        ("question_answering", "hallucination_ratio", 218 / 990),
        ("question_answering", "omission_ratio", 198 / 990),
        ("question_answering", "num_valid", 990),
        ("evidence_coverage", "num_covered", 425),
        ("evidence_coverage", "num_total", 990),
        ("evidence_coverage", "hit_rate", 425 / 990),
    ],
)
def test_the_printed_numbers_follow_from_the_printed_counters(dimension: str, key: str, value: float) -> None:
    """The description prints two digits. Its update score is wrong: the formula gives 0.718."""
    number = total_of(printed_sessions(), printed_questions())[dimension][key]
    assert number == pytest.approx(value)
    wanted = 0.72 if (dimension, key) == ("update_handling", "score") else PRINTED[dimension][key]
    assert round(number, 2) == wanted


def test_correctness_follows_from_its_counters() -> None:
    """972, 96 and 132 of 1,200 texts, with the same shares in every session."""
    share = {"num_memories": 100, "num_correct": 81, "num_hallucination": 8, "num_irrelevant": 11}
    correctness = total_of([{**share, "correctness_rate": 0.81}] * 12, [])["memory_correctness"]
    wanted = PRINTED["memory_correctness"] | {"num_sessions": 12}
    assert correctness == pytest.approx(wanted)


def test_sessions_are_averaged_and_points_pooled() -> None:
    """Uneven sessions show the difference: 1 of 1 and 0 of 9 is 0.5 as a mean and 0.1 pooled."""
    first = {"recall": 1.0, "covered_count": 1, "num_gold": 1, "update_recall": 1.0, "update_total": 1}
    second = {"recall": 0.0, "covered_count": 0, "num_gold": 9}
    first |= {"correctness_rate": 1.0, "num_memories": 1, "num_correct": 1}
    second |= {"correctness_rate": 0.0, "num_memories": 9, "num_hallucination": 6, "num_irrelevant": 3}
    first |= {"update_num_updated": 1, "interference_num_rejected": 1}
    second |= {"update_num_outdated": 9, "interference_num_memorized": 9}
    questions = [
        {"evidence_hit_rate": 1.0, "evidence_covered_count": 1, "num_evidence": 1},
        {"evidence_hit_rate": 0.0, "evidence_covered_count": 0, "num_evidence": 9},
    ]
    aggregate = total_of([first, second], questions)
    recall, correctness = aggregate["memory_recall"], aggregate["memory_correctness"]
    assert (recall["avg_recall"], recall["total_covered"], recall["total_gold"]) == (0.5, 1, 10)
    assert (recall["avg_update_recall"], recall["num_sessions_with_update"]) == (1.0, 1)
    assert (correctness["avg_correctness"], correctness["total_memories"]) == (0.5, 10)
    assert correctness["avg_hallucination"] == pytest.approx(1 / 3)
    assert correctness["avg_irrelevant"] == pytest.approx(1 / 6)
    assert aggregate["update_handling"]["score"] == 0.1
    assert aggregate["interference_rejection"]["score"] == 0.1
    assert aggregate["evidence_coverage"]["hit_rate"] == 0.1


def test_nulls_are_left_out() -> None:
    """The counts of a failed recall or correctness stay in the record, but are not part of the total."""
    judged: dict[str, Any] = {"recall": 0.5, "covered_count": 1, "num_gold": 2}
    judged |= {"correctness_rate": 1.0, "num_memories": 2, "num_correct": 2}
    questions: list[dict[str, Any]] = [
        {"answer_label": "Correct", "answer_is_valid": True, "num_evidence": 3},
        {"answer_label": None, "answer_is_valid": False, "evidence_hit_rate": 1.0, "num_evidence": 0},
    ]
    aggregate = total_of([judged, {"num_gold": 7, "num_memories": 5, "update_total": 3}, {}], questions)
    assert aggregate["memory_recall"] == {
        "avg_recall": 0.5,
        "avg_update_recall": 0.0,
        "num_sessions_with_recall": 1,
        "num_sessions_with_update": 0,
        "total_covered": 1,
        "total_gold": 2,
    }
    assert (
        aggregate["memory_correctness"]["num_sessions"],
        aggregate["memory_correctness"]["total_memories"],
    ) == (
        1,
        2,
    )
    assert aggregate["question_answering"] == {
        "correct_ratio": 1.0,
        "hallucination_ratio": 0.0,
        "omission_ratio": 0.0,
        "num_total": 2,
        "num_valid": 1,
    }
    assert aggregate["evidence_coverage"] == {"hit_rate": 0.0, "num_covered": 0, "num_total": 0}


def test_an_empty_delta_that_another_tool_calls_0_is_left_out() -> None:
    """A session that wrote nothing has no correctness."""
    correctness = total_of([{"correctness_rate": 0.0, "num_memories": 0}], [])["memory_correctness"]
    assert correctness["num_sessions"] == 0


def test_error_is_irrelevant_by_another_name() -> None:
    """Other tools write the label `error`. Their counter of irrelevant texts may differ."""
    records = [
        MemoryLabel(1, "correct"),
        MemoryLabel(2, "error"),
        MemoryLabel(3, "error"),
        MemoryLabel(4, "hallucination"),
    ]
    session = {"correctness_rate": 0.25, "num_memories": 4, "num_correct": 1, "num_hallucination": 1}
    correctness = total_of([{**session, "correctness_records": records}], [])["memory_correctness"]
    assert (correctness["avg_irrelevant"], correctness["total_irrelevant"]) == (0.5, 2)


def test_the_aggregate_of_records_is_the_one_that_was_written_with_them() -> None:
    """The aggregate can be computed from the files alone. Lines without an eval are ignored."""
    sessions = [SessionEval(session_id="S", **each) for each in printed_sessions()]
    questions = [QaEval(**each) for each in printed_questions()]
    lines = [encode(replace(session(), eval=each)) for each in sessions] + [encode(session())]
    question_lines = [encode(replace(question(), eval=each)) for each in questions] + [encode(question())]
    aggregate = aggregate_records(lines, question_lines, "FUMemory")
    assert aggregate == total_of(printed_sessions(), printed_questions())


counts = some.integers(0, 50)


@given(some.lists(some.tuples(counts, counts, counts), max_size=8))
def test_pooled_scores_are_shares_whatever_the_sessions(counts: list[tuple[int, int, int]]) -> None:
    """The update score of several sessions equals that of one session with all their points."""
    keys = ("update_num_updated", "update_num_both", "update_num_outdated")
    split = total_of([dict(zip(keys, each, strict=True)) for each in counts], [])["update_handling"]
    at_once = [sum(column) for column in zip(*counts, strict=True)] or [0, 0, 0]
    assert split == total_of([dict(zip(keys, at_once, strict=True))], [])["update_handling"]
    assert 0 <= split["score"] <= 1
