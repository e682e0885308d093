"""The prompt of an answer: what a model is told, and nothing that a memory could smuggle in."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.core.memory import MemoryItem, SearchHit
from assay.solvers.memory.answers import ANSWER_PROMPT, answer_messages, prompt_fingerprint

TWO = [
    SearchHit(MemoryItem("1", "Ann: yesterday", date="5 May")),
    SearchHit(MemoryItem("2", "Bob: {question} {memories}")),
]


def test_memories_stand_in_their_order_with_dates() -> None:
    """A text that looks like a place of the prompt stays a text."""
    told = answer_messages("Who?", TWO)[-1]["content"]
    assert "- (5 May) Ann: yesterday\n- Bob: {question} {memories}\n" in told
    assert told.count("Who?") == 1


def test_no_memory_is_said() -> None:
    assert "Memories:\n(none)\n" in answer_messages("Who?", [])[-1]["content"]


def test_another_wording_has_another_fingerprint(tmp_path: Path) -> None:
    prompt = tmp_path / "p.txt"
    prompt.write_text("=== user ===\n{memories} {question}")
    assert answer_messages("Q", [], prompt) == [{"role": "user", "content": "(none) Q"}]
    assert prompt_fingerprint(prompt) != prompt_fingerprint(ANSWER_PROMPT)


@pytest.mark.parametrize("text", ["", "=== user ===\n{question}", "{memories} {question}"])
def test_a_prompt_without_its_places_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(InputError, match="memories"):
        answer_messages("Q", [], tmp_path / "p.txt")
