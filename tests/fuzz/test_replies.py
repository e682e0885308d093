"""Random texts of models: the readers of verdicts, JSON, ratings and results return a value, or one of their errors."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from assay.core.registry import built_in, find
from assay.core.types import Response
from assay.memories.helpers import dates, prompts
from assay.scoring.judge_prompt import JudgePrompt
from assay.scoring.judges.rubric import read_verdict
from assay.scoring.questions import (
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    RecallQuestion,
    UpdateQuestion,
)
from assay.suites.hop import messages
from assay.suites.toolkit.json_reply import NoJsonError, find_json

from support.fuzz import bounded, expect_printable, fuzzed
from support.mutation import mutated, put_odd_value

QUESTIONS: dict[str, Any] = {
    "answer": AnswerQuestion("Where?", "Bern", "In Bern."),
    "correctness": CorrectnessQuestion(("a", "b"), ("x",), ("y",)),
    "evidence": EvidenceQuestion(("a", "b"), ("x",)),
    "interference": InterferenceQuestion("a", ("x",)),
    "recall": RecallQuestion(("a", "b"), (True, False), ("x",)),
    "update": UpdateQuestion("a", ("b",), ("x",)),
}
VERDICTS: list[dict[str, Any]] = [
    {"reason": "it is so", "label": "Correct"},
    {"reason": "it is so", "labels": {"1": "covered", "2": "missed"}},
    {"reason": "it is so", "labels": {"1": "correct"}},
    {"reason": "it is so", "label": "updated"},
    {"reason": "it is so", "label": "rejected"},
    {"reason": "it is so", "passed": True},
    {"result": {"a": [1, "x"]}},
    {"result": "True"},
    {"missing_info": "the year"},
]
# Replies that take long if a reader compares everything with everything.
LONG = [
    *(
        "{" * 50_000,
        "[" * 50_000,
        "```\n" * 20_000,
        '{"a":1}' * 20_000,
        "{}" * 30_000,
        '"' * 50_000,
        "7 " * 30_000,
    ),
    "".join(f'{{"a":{number}}}' for number in range(20_000)),
    "{" + ",".join(f'"{number}":1' for number in range(30_000)) + ',"29999":1}',
    '{"reason": "' + "\\\\" * 30_000,
]
AROUND = ["", "Sure!\n", "```json\n", "```", "\n\n", "{", "yes: ", "- ", "1. recall(", "7/10 "]


def reply_of(random: Random) -> str:
    """A verdict with odd values, text around it, and changed bytes."""
    if random.random() < 0.05:
        return random.choice(LONG)
    verdict = json.loads(json.dumps(random.choice(VERDICTS)))
    if random.random() < 0.6:
        put_odd_value(random, verdict)
    text = json.dumps(verdict, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.4:
        text = mutated(random, text.encode(errors="surrogatepass")).decode(errors="replace")
    return random.choice(AROUND) + text + random.choice(AROUND)


def test_every_judge_has_a_question_here() -> None:
    """A new judge fails here until the test below has a question for it. `rubric` takes none."""
    assert QUESTIONS.keys() | {"rubric"} == built_in("judge")


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_judge_reads_an_unchanged_verdict(name: str) -> None:
    """Changes of verdicts that are refused anyway would test nothing."""
    judge: JudgePrompt[Any] = find("judge", name).build()
    labels = []
    for verdict in VERDICTS:
        with suppress(ValueError):
            labels.append(judge.read_text(json.dumps(verdict), "the prompt", QUESTIONS[name])[0])
    assert labels


def test_steps_and_hop_functions_read_unchanged_replies() -> None:
    texts = [json.dumps(verdict) for verdict in VERDICTS]
    assert [read_verdict(Response(text)).passed for text in texts].count(True) == 1
    assert [find_json(text) for text in texts] == VERDICTS
    judgements, results = 0, 0
    for text in texts:
        with suppress(messages.UnreadableReply):
            reply = messages.read_reply(text, None)
            results += 1
            messages.read_judgement(reply.result)
            judgements += 1
    assert (results, judgements) == (3, 1)


@fuzzed(50)
def test_a_verdict_is_read_or_refused(random: Random) -> None:
    """By every judge: labels that the question allows, or a ValueError that the verdict quotes."""
    text = reply_of(random)
    for name, question in QUESTIONS.items():
        judge: JudgePrompt[Any] = find("judge", name).build()
        with bounded():
            try:
                labels, _ = judge.read_text(text, "the prompt", question)
            except ValueError as error:
                expect_printable(str(error).encode(errors="replace").decode())
                continue
        assert len(labels) == question.count
        assert set(labels) <= set(question.labels)
    verdict = read_verdict(Response(text))
    assert (verdict.passed is None) == (verdict.status == "invalid")


@fuzzed(60)
def test_a_reply_is_read_by_steps_hop_functions_and_memories(random: Random) -> None:
    text = reply_of(random)
    with bounded():
        with suppress(NoJsonError):
            json.dumps(find_json(text))
        try:
            reply = messages.read_reply(text, random.choice([None, str, {"a": int}, [int]]))
            messages.read_judgement(reply.result)
        except messages.UnreadableReply as error:
            expect_printable(str(error).encode(errors="replace").decode())
        prompts.parse_lines(text)
        prompts.parse_calls(text, ("recall", "yes"))
        rating = prompts.parse_rating(text)
        prompts.parse_choice(text)
        dates.read_date(text[:60])
    assert rating is None or 1 <= rating <= 10
