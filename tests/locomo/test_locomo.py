"""The real data gives the sequences and the statistics that are known of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import assay
from assay.suites.memory.conversation import ConversationTest
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.pipeline_caller import PipelineCaller
from assay.suites.memory.test.schedule import ScheduleOptions, plan_tests

Conversations = dict[str, Conversation]

V1 = {  # (visible, dialogs inserted)
    "conv-26": "19,32 39,66 60,102 79,141 98,199 117,255 136,295 155,350 175,382 196,406",
    "conv-30": "11,20 22,36 32,52 43,108 54,172 66,218 79,276 92,300 102,347",
}
V2 = "15,34 32,72 45,104 60,141 75,195 90,248 105,295 120,352 135,382 150,408"
TABLE = {  # sessions, messages, questions, questions by category
    "conv-26": (19, 419, 199, (32, 37, 13, 70, 47)),
    "conv-30": (19, 369, 105, (11, 26, 0, 44, 24)),
    "conv-41": (32, 663, 193, (31, 27, 8, 86, 41)),
    "conv-42": (29, 629, 260, (37, 40, 11, 111, 61)),
    "conv-43": (29, 680, 242, (31, 26, 14, 107, 64)),
    "conv-44": (28, 675, 158, (30, 24, 7, 62, 35)),
    "conv-47": (31, 689, 190, (20, 34, 13, 83, 40)),
    "conv-48": (30, 681, 239, (21, 42, 10, 118, 48)),
    "conv-49": (25, 509, 196, (37, 33, 13, 73, 40)),
    "conv-50": (30, 568, 204, (32, 32, 7, 87, 46)),
}
WITHOUT_EVIDENCE = {"conv-26": [31, 47], "conv-50": [40, 43]}


def told(tests: list[ConversationTest]) -> str:
    return " ".join(f"{test.visible},{test.after}" for test in tests)


@pytest.mark.parametrize("sample", V1)
def test_increments_without_a_final_test(conversations: Conversations, sample: str) -> None:
    assert (
        told(
            plan_tests(
                conversations[sample],
                ScheduleOptions(trigger="increment", segments=10, final=False, categories=[]),
            )
        )
        == V1[sample]
    )


def test_increments_may_end_complete(conversations: Conversations) -> None:
    tests = plan_tests(
        conversations["conv-44"],
        ScheduleOptions(trigger="increment", segments=10, final=False, categories=[]),
    )
    assert len(tests) == 10
    assert tests[-1] == ConversationTest(675, 158)


def test_segments_of_four_categories(conversations: Conversations) -> None:
    tests = plan_tests(
        conversations["conv-26"],
        ScheduleOptions(trigger="segments", segments=10, final=False, categories=["1", "2", "3", "4"]),
    )
    assert told(tests) == V2


@pytest.mark.parametrize(
    ("rule", "categories", "answers"),
    [
        ("increment", "12345", 9691),
        ("increment", "1234", 7609),
        ("segments", "12345", 10998),
        ("segments", "1234", 8494),
    ],
)
def test_all_answers_of_all_tests(conversations: Conversations, rule: str, categories: str, answers: int) -> None:
    """What a run of all ten asks by each rule, with and without category 5."""
    tests = (
        test
        for each in conversations.values()
        for test in plan_tests(each, ScheduleOptions(trigger=rule, segments=10, final=False, categories=categories))
    )
    assert sum(test.visible for test in tests) == answers


@pytest.mark.parametrize(("categories", "questions"), [("1234", 1540), ("12345", 1986)])
def test_every_question_is_asked_at_the_end(conversations: Conversations, categories: str, questions: int) -> None:
    """Also the four without evidence, and each of them once."""
    tests = [plan_tests(each, ScheduleOptions(ask="at-end", categories=categories)) for each in conversations.values()]
    assert {len(each) for each in tests} == {1}
    assert sum(each[0].visible for each in tests) == questions


def test_hybrid_finds_at_least_what_it_found(locomo: Path, tmp_path: Path) -> None:
    """Recall@10 of 1,536 questions with evidence, of 1,540 asked. It is the same number as the evidence recall."""
    options = {"memory": ["hybrid"], "ask": "at-end", "categories": ["1", "2", "3", "4"], "no_answer": True}
    run = assay.run(assay.spec("memory-test", data=str(locomo), output_dir=str(tmp_path), **options))
    assert run.report is not None
    (entry,) = run.report.entries
    values = {metric.name: (metric.value, metric.denominator) for metric in entry.metrics}
    assert entry.counts["asked"] == 1540
    assert values["evidence_recall"] == values["recall_at_10"]
    recall, questions = values["recall_at_10"]
    assert questions == 1536
    assert recall is not None
    assert recall >= 0.784


@pytest.mark.parametrize("sample", TABLE)
def test_statistics(conversations: Conversations, sample: str) -> None:
    """Sessions, messages and questions of each conversation; four questions of all have no evidence."""
    sessions, messages, questions, _ = TABLE[sample]
    statistics = dict(PipelineCaller(conversations[sample]).dataset_statistics)
    without = WITHOUT_EVIDENCE.get(sample, [])
    assert [(each["question_index"], each["reason"]) for each in statistics.pop("invalid_questions")] == [
        (index, "no_evidence") for index in without
    ]
    assert statistics == {
        "total_sessions": sessions,
        "total_dialogs": messages,
        "total_questions": questions,
        "valid_questions": questions - len(without),
    }


@pytest.mark.parametrize("sample", TABLE)
def test_categories(conversations: Conversations, sample: str) -> None:
    """Every valid question has the category of the data; those without evidence are of category 3."""
    counts = Counter(question.category for question in conversations[sample].questions)
    counts[3] += len(WITHOUT_EVIDENCE.get(sample, []))
    assert tuple(counts[number] for number in range(1, 6)) == TABLE[sample][3]


def test_the_whole_standard_set_can_be_asked_at_the_end(conversations: Conversations) -> None:
    """Published results are over the 1,540 questions of categories 1 to 4, with those without evidence."""
    at_end = ScheduleOptions(ask="at-end", categories=("1", "2", "3", "4"))
    callers = [PipelineCaller(conversation, at_end) for conversation in conversations.values()]
    assert sum(len(caller.questions) for caller in callers) == 1_540
    assert sum(test.visible for caller in callers for test in caller.tests) == 1_540


def test_adversarial_answers_are_no_references(conversations: Conversations) -> None:
    """Two of 446 questions of category 5 have an answer too, which is kept."""
    adversarial = [question for each in conversations.values() for question in each.questions if question.abstention]
    assert len(adversarial) == 446
    assert [question.reference for question in adversarial if question.reference is not None] == ["No", "No"]


def test_defects_of_evidence_are_read(conversations: Conversations) -> None:
    """Joined, padded and misspelt places; two more name a message that is not there."""
    ids = {name: {message.id for message in each.messages} for name, each in conversations.items()}
    missing = [
        (name, question.source_index + 1, place)
        for name, each in conversations.items()
        for question in each.questions
        for place in question.places
        if place not in ids[name]
    ]
    assert missing == [("conv-42", 59, "D10:19"), ("conv-47", 39, "D4:36")]
    by_index = {question.source_index: question for question in conversations["conv-49"].questions}
    assert by_index[31].places[:3] == ("D9:1", "D4:4", "D4:6")
