"""The prompt of an answer: what a model is told, files of the user, and mistakes that are found before a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import InputError
from assay.core.memory import MemoryItem, Query, SearchHit
from assay.suites.memory.answer_prompt import MemoryPrompt, cited_prompt, plain_prompt

TWO = [
    SearchHit(MemoryItem("1", "Ann: yesterday", date="5 May")),
    SearchHit(MemoryItem("2", "Bob: {question} {memories}")),
]
# The requests of earlier versions, which asked without a date. Their replies are found again in the journal.
PLAIN_BEFORE = """Memories:
- (5 May) Ann: yesterday
- Bob: {question} {memories}

Question: Who?
Answer:"""
CITED_BEFORE = """Memories:
[1] (5 May) Ann: yesterday
[2] Bob: {question} {memories}

Question: Who?"""


def own(folder: Path, text: str) -> MemoryPrompt:
    """The prompt in a file with this text."""
    path = folder / "mine.txt"
    path.write_text(text, encoding="utf-8")
    return plain_prompt(path)


@pytest.mark.parametrize(("prompt", "text"), [(plain_prompt(), PLAIN_BEFORE), (cited_prompt(), CITED_BEFORE)])
def test_without_a_date_the_text_is_that_of_earlier_versions(prompt: MemoryPrompt, text: str) -> None:
    """A text that looks like a placeholder stays a text."""
    system, user = prompt.messages(Query("Who?"), TWO)
    assert (system["role"], user) == ("system", {"role": "user", "content": text})


@pytest.mark.parametrize("prompt", [plain_prompt(), cited_prompt()])
def test_the_date_of_a_question_stands_before_it(prompt: MemoryPrompt) -> None:
    user = prompt.messages(Query("Who?", date="2023/05/30"), [])[-1]["content"]
    assert "Memories:\n(none)\n\nDate of the question: 2023/05/30\nQuestion: Who?" in user


def test_a_file_with_two_placeholders_is_one_user_message(tmp_path: Path) -> None:
    prompt = own(tmp_path, "{memories}\nOn {date}: {question}\n")
    assert prompt.messages(Query("Q", date="Monday"), []) == [{"role": "user", "content": "(none)\nOn Monday: Q"}]
    assert prompt.messages(Query("Q"), [])[0]["content"] == "(none)\nOn : Q"


def test_a_file_may_have_a_system_part(tmp_path: Path) -> None:
    prompt = own(tmp_path, "=== system ===\nBe brief.\n=== user ===\n{memories} {question}")
    assert prompt.messages(Query("Q"), []) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "(none) Q"},
    ]


def test_another_text_is_another_prompt_and_another_name_is_not(tmp_path: Path) -> None:
    first = own(tmp_path, "{memories} {question}")
    (tmp_path / "copy.txt").write_text("{memories} {question}")
    assert plain_prompt(tmp_path / "copy.txt").fingerprint == first.fingerprint
    assert own(tmp_path, "{memories} {question}!").fingerprint != first.fingerprint
    assert plain_prompt().fingerprint != cited_prompt().fingerprint


def test_a_prompt_without_the_word_citations_asks_for_none(tmp_path: Path) -> None:
    assert cited_prompt().cites
    path = tmp_path / "mine.txt"
    path.write_text("{memories} {question}")
    assert not cited_prompt(path).cites
    path.write_text('{memories} {question} {"answer": "...", "citations": [1]}')
    assert cited_prompt(path).cites


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" \n", "mine.txt: the file is empty; write a prompt with {memories} and {question}"),
        (
            "{memories}",
            "mine.txt: the prompt lacks {question}; it needs the placeholders {memories} and {question}",
        ),
        ("Hi", "mine.txt: the prompt lacks {memories} and {question};"),
        (
            "{memories}\n{question} {querry}",
            "mine.txt:2: {querry} is no placeholder of this prompt; there are {memories}, {question} and {date}",
        ),
        (
            "{memorys} {memories} {question}",
            "mine.txt:1: {memorys} is no placeholder of this prompt; did you mean 'memories'?",
        ),
        (
            "=== system ===\n{memories} {question}",
            "mine.txt: the prompt has no part `=== user ===`, only system",
        ),
        (
            "{question}\n=== user ===\n{memories} {question}",
            "mine.txt:1: this text belongs to no part; write `=== user ===` above it",
        ),
        (
            "=== user ===\n{memories} {question}\n=== assistant ===\nSure.",
            "mine.txt:3: there is no part `=== assistant ===`, only `=== system ===` and `=== user ===`",
        ),
        (
            "=== user ===\n{memories} {question}\n=== user ===\nx",
            "mine.txt:3: the part `=== user ===` is there twice",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        own(tmp_path, text)
    assert problem in "\n".join(map(str, caught.value.problems))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.txt: there is no such file"):
        plain_prompt(tmp_path / "gone.txt")
    (tmp_path / "latin.txt").write_bytes("é {memories} {question}".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        plain_prompt(tmp_path / "latin.txt")
