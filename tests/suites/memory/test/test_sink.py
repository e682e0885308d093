"""The output file of a conversation: the keys of the format, in its order."""

from __future__ import annotations

import json
from pathlib import Path

from assay.suites.memory.conversation import ConversationTest
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession
from assay.suites.memory.test.pipeline_caller import PipelineCaller
from assay.suites.memory.test.schedule import ScheduleOptions
from assay.suites.memory.test.sink import ExperimentInfo, QuestionResult, Sink

INFO = ExperimentInfo(dataset="locomo", task_id="0000")
TOPIC = ConversationQuestion.of(
    "What is the main topic?",
    ["D1:3", "D1:5"],
    {"category": "factoid", "level": 2, "evidence": ["D1:3", "D1:5"]},
    reference="Technology and AI",
    source_index=14,
)


def test_the_document_of_the_format() -> None:
    """Every key of the format's own example, and no other, in its order."""
    sink = Sink(INFO, {"total_sessions": 3}, "1/10 of total questions")
    plain = ConversationQuestion.of("Who?", [], {})
    sink.add(8, [QuestionResult(question_index=1, question=plain, predicted_answer="John")])
    sink.add(
        16,
        [QuestionResult(question_index=1, question=plain), QuestionResult(question_index=2, question=plain)],
    )
    document = sink.document()
    assert list(document) == ["experiment_info", "dataset_statistics", "test_summary", "test_results"]
    assert document["experiment_info"] == {"dataset": "locomo", "task_id": "0000"}
    assert document["dataset_statistics"] == {"total_sessions": 3}
    assert document["test_summary"] == {"total_tests": 2, "test_threshold": "1/10 of total questions"}
    first, second = document["test_results"]
    assert list(first) == [
        "test_index",
        "question_range",
        "dialogs_inserted_count",
        "questions",
    ]
    assert (first["test_index"], second["test_index"]) == (1, 2)
    assert second["question_range"] == {"start": 1, "end": 2}
    assert (first["dialogs_inserted_count"], second["dialogs_inserted_count"]) == (8, 16)


def test_required_keys_come_first_then_what_is_there() -> None:
    """All metadata is copied. Absent values have no key."""
    item = QuestionResult(question_index=3, question=TOPIC, predicted_answer="Technology").to_json()
    assert list(item.items()) == [
        ("question_index", 3),
        ("question_text", "What is the main topic?"),
        ("predicted_answer", "Technology"),
        ("reference_answer", "Technology and AI"),
        ("evidence", ["D1:3", "D1:5"]),
        ("category", "factoid"),
        ("level", 2),
        ("source_index", 14),
    ]
    bare = QuestionResult(question_index=1, question=ConversationQuestion.of("?", [], {"category": None})).to_json()
    assert list(bare) == ["question_index", "question_text", "predicted_answer", "source_index"]


def test_a_failure_has_an_empty_answer_and_its_error() -> None:
    """Only failed answers have `error`. It comes before `retrieved` and `timings`."""
    failed = QuestionResult(
        question_index=1,
        question=TOPIC,
        predicted_answer="half",
        error="no reply",
        retrieved=("D1:3",),
        timings={"retrieval_seconds": 0.5},
    )
    item = failed.to_json()
    assert item["predicted_answer"] == ""
    assert list(item)[-4:] == ["error", "source_index", "retrieved", "timings"]
    assert (item["error"], item["retrieved"]) == ("no reply", ["D1:3"])


def test_a_reference_of_zero_or_nothing_found_is_not_absent() -> None:
    question = ConversationQuestion.of("How many?", [], {}, reference=0)
    item = QuestionResult(question_index=1, question=question, retrieved=()).to_json()
    assert item["reference_answer"] == 0
    assert item["retrieved"] == []


def test_more_about_the_experiment_stands_behind_the_formats_own_keys() -> None:
    info = ExperimentInfo(dataset="locomo", task_id="0001", sample_id="conv-30", memory="bm25", model="openai/x")
    document = Sink(info, {}, "1/4 of total questions").document()
    assert list(document["experiment_info"]) == ["dataset", "task_id", "memory", "model", "sample_id"]
    assert document["test_summary"] == {"total_tests": 0, "test_threshold": "1/4 of total questions"}


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    """Creates folders, does not escape letters, and leaves no temporary file."""
    path = tmp_path / "locomo" / "251120_1430" / "0000.json"
    sink = Sink(INFO, {"note": "Zürich"}, "1/10 of total questions")
    sink.write(path)
    assert json.loads(path.read_text()) == sink.document()
    assert "Zürich" in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["0000.json"]


def test_a_caller_knows_what_is_asked_and_when() -> None:
    """A caller has the questions, tests and statistics of a conversation."""
    session = ConversationSession.of(1, "", [("A", "x")] * 4)
    questions = [
        ConversationQuestion.of("late", ["D1:4"], {"category": 1}, source_index=0),
        ConversationQuestion.of("early", ["D1:1"], {"category": 1}, source_index=1),
        ConversationQuestion.of("other", ["D1:1"], {"category": 5}, source_index=2),
        ConversationQuestion.of("never", ["?"], {"category": 1}, source_index=3),
    ]
    conversation = Conversation.of(0, "x", [session], questions)
    caller = PipelineCaller(conversation, ScheduleOptions(categories=["1"]))
    assert [question.text for question in caller.questions] == ["early", "late"]
    assert caller.tests == [ConversationTest(2, 1), ConversationTest(4, 2)]
    assert list(caller.dataset_statistics.items()) == [
        ("total_sessions", 1),
        ("total_dialogs", 4),
        ("total_questions", 4),
        ("valid_questions", 3),
        (
            "invalid_questions",
            [{"question_index": 4, "question": "never", "reason": "unparsable_evidence"}],
        ),
    ]
    assert list(caller.dataset_statistics["invalid_questions"][0]) == [
        "question_index",
        "question",
        "reason",
    ]
