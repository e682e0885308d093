"""Few-shot examples of a prompt are told apart if there is one way to do so."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.types import Request
from assay.suites.task.case_page import prompt_pieces

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
    found = pieces(
        request(f"You are kind.\n\n{description}{PROMPT}"), "You are kind.", description=description
    )
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
