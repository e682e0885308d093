"""Few-shot examples of a prompt and choices are told apart if there is one way to do so."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.suite import pages_of
from assay.core.suite_pages import StoredCase
from assay.core.types import ASK, Call, End, Record, Request, Response, Score
from assay.suites.task.page_details import prompt_pieces
from assay.suites.task.suite import TaskSuite

FEWSHOT = {"fewshot_delimiter": "\n\n", "doc_to_target": "{{answer}}"}
SETTINGS = {"num_fewshot": 2, "fewshot_delimiter": "\n\n", "description": "", "fewshot": FEWSHOT}
PROMPT = "Q: one?\nA: 1\n\nQ: two?\nA: 2\n\nQ: three?\nA:"


def request(prompt: str | None = None, messages: list[dict[str, Any]] | None = None) -> Request:
    return Request(model="m", prompt=prompt, messages=messages)


def pieces(sent: Request, system: str | None = None, **settings: Any) -> list[tuple[int, str]]:
    found = prompt_pieces(sent, SETTINGS | settings, system, ["question", "answer"])
    return [(piece.example, piece.text) for piece in found]


def test_a_text_is_split_at_the_delimiter_and_the_pieces_are_the_prompt() -> None:
    found = pieces(request(PROMPT))
    assert found == [(1, "Q: one?\nA: 1\n\n"), (2, "Q: two?\nA: 2\n\n"), (0, "Q: three?\nA:")]
    assert "".join(text for _, text in found) == PROMPT


def test_a_fixed_description_with_delimiters_of_its_own_comes_first() -> None:
    description = "Answer.\n\nBe brief.\n\n"
    found = pieces(request(f"You are kind.\n\n{description}{PROMPT}"), "You are kind.", description=description)
    assert found[0] == (0, f"You are kind.\n\n{description}")
    assert [number for number, _ in found] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("prompt", "settings"),
    [
        pytest.param("Q: one?\n\nreally?\nA: 1\n\nQ: two?\nA: 2\n\nQ: three?", {}, id="within an example"),
        pytest.param("Q: one?\nA: 1\n\n\nQ: two?\nA: 2\n\nQ: three?", {}, id="overlap"),
        pytest.param("Q: one?\nA: 1\n\nQ: three?", {}, id="too few"),
        pytest.param(PROMPT, {"description": "{{question}}"}, id="description of the document"),
        pytest.param(PROMPT, {"description": "question"}, id="description is a column"),
        pytest.param(PROMPT, {"description": {"function": "0123"}}, id="description is a function"),
        pytest.param(PROMPT, {"description": "Other text."}, id="description that was not sent"),
        pytest.param(PROMPT, {"num_fewshot": 0}, id="no examples"),
        pytest.param(PROMPT, {"fewshot": FEWSHOT | {"fewshot_delimiter": ""}}, id="no delimiter"),
        pytest.param(PROMPT, {"fewshot": FEWSHOT | {"doc_to_target": None}}, id="no targets"),
        pytest.param(PROMPT, {"fewshot": None}, id="older run"),
    ],
)
def test_a_prompt_stays_whole_if_its_examples_cannot_be_told(prompt: str, settings: dict[str, Any]) -> None:
    assert pieces(request(prompt), **settings) == []


def test_messages_are_told_by_their_roles_or_by_the_delimiter_within_the_only_one() -> None:
    roles = ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    several = [{"role": role, "content": f"text {number}"} for number, role in enumerate(roles)]
    assert [number for number, _ in pieces(request(messages=several))] == [0, 1, 1, 2, 2, 0, 0]
    assert [number for number, _ in pieces(request(messages=several[1:-1]))] == [1, 1, 2, 2, 0]
    assert pieces(request(messages=several[3:])) == []
    one = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": PROMPT}]
    assert [number for number, _ in pieces(request(messages=one), "Be kind.")] == [0, 1, 2, 0]
    pictures = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    assert pieces(request(messages=pictures)) == []


def asked(text: str, logprob: float, prompt: str = "Capital of France?") -> Call:
    sent = Request(model="m", prompt=prompt, continuation=f" {text}")
    reply = Response("", data={"logprob": logprob, "greedy": False})
    return Call(0, "key", "set", "m", ASK, 1, f"{prompt} {text}", 0, sent, reply)


def choice(calls: list[Call], logprobs: list[float], *metrics: str, expected: Any = 0) -> StoredCase:
    """Return a case of a multiple choice with these metrics."""
    data: Any = {"filtered": [[logprob, False] for logprob in logprobs]}
    scores = []
    for metric in metrics:
        scores.append(Score(0, "key", "set", "m", "s@1", metric, "none", value=0.0, data=data, expected=expected))
        data = expected = None
    return StoredCase(End(0, "key", "set", "m", ASK, 1, "ok", []), [], scores, calls)


ROME_FIRST = [asked("Rome", -1.0), asked("Paris", -2.0)]
ALONE = [asked("Paris", -0.5, prompt=""), asked("Rome", -9.0, prompt="")]
IN_QUESTIONS = [asked("is big", -2.0, "Paris"), asked("is big", -1.0, "Rome")]


@pytest.mark.parametrize(
    ("case", "expected", "found"),
    [
        (choice(ROME_FIRST, [-2.0, -1.0], "acc"), "Paris", "Rome"),
        (choice(ROME_FIRST, [-2.0, -1.0], "acc", expected="Paris"), "Paris", "Rome"),
        (choice(ROME_FIRST, [-2.0, -1.0], "acc", expected=[0, 1]), "Paris or Rome", "Rome"),
        (choice([*ALONE, *ROME_FIRST], [-2.0, -1.0, -0.5, -9.0], "acc"), "Paris", "Rome"),
        (
            choice([asked("Rome", -1.0), asked("Saint-Denis", -2.0)], [-2.0, -1.0], "acc", "acc_norm"),
            "Saint-Denis",
            "acc: Rome · acc_norm: Saint-Denis",
        ),
        (
            choice([asked("Rome", -1.0), asked("Paris", -1.0)], [-1.0, -1.0], "acc"),
            "0",
            "[[-1.0,false],[-1.0,false]]",
        ),
        (choice(IN_QUESTIONS, [-2.0, -1.0], "acc"), "0", "[[-2.0,false],[-1.0,false]]"),
        (choice([], [-2.0, -1.0], "acc"), "0", "[[-2.0,false],[-1.0,false]]"),
    ],
    ids=[
        "by number, in whatever order calls ended",
        "the target is a text",
        "several are right",
        "likelihoods without the question",
        "metrics choose differently",
        "equal likelihoods",
        "choices in the questions",
        "no calls",
    ],
)
def test_a_multiple_choice_shows_the_texts_of_its_choices(case: StoredCase, expected: str, found: str) -> None:
    (pair,) = pages_of(TaskSuite).details(case).pairs
    assert (pair.expected, pair.found) == (expected, found)
    assert pages_of(TaskSuite).sections(case)[0].text == f"expected {expected} · found {found} ✗"


def test_the_answer_of_a_multiple_choice_is_not_the_likelihood_of_its_first_choice() -> None:
    replies = [[[-2.0, False]], [[-1.25, False]]]
    assert pages_of(TaskSuite).answer_text([Record(0, "key", "set", "m", 1, "answer", data=replies)]) == (
        "log-likelihoods -2, -1.25"
    )
    text = [["Paris", "Rome"], ["Oslo"]]
    assert pages_of(TaskSuite).answer_text([Record(0, "key", "set", "m", 1, "answer", data=text)]) == "Paris"
