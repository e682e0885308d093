"""`assay memory try`: what a memory stores, finds and misses, in the terminal and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.loopback import LoopbackServer, chat
from support.commands import typed

MEMORY = """
from assay.core.memory import AboutMemory, MemoryItem, SearchHit

class Mine:
    def __init__(self, context):
        self.context = context
        self.held = []

    def reset(self):
        self.held = []

    def add(self, messages):
        for message in messages:
            if "boat" in message.text:
                continue
            self.held.append(
                MemoryItem(message.id, message.line, sources=(message.id,), metadata={"letters": len(message.text)})
            )

    def search(self, query, k):
        if "euros" in query.text:
            raise KeyError("euros")
        return [SearchHit(item, 0.5, {"why": "all"}) for item in self.held if "bed" not in item.text][:k]

    def items(self):
        return list(self.held)

    def end_session(self):
        pass


class Late(Mine):
    def end_session(self):
        raise ValueError("too late")


class Old(Mine):
    def end_session(self):
        from msgspec.structs import replace
        self.held = [replace(item, status="archived") if item.id == "D1:1" else item for item in self.held]


class Sums(Mine):
    def items(self):
        sources = tuple(item.id for item in self.held)
        return [MemoryItem("summary", "all of it", sources=sources, kind="summary")]

    def search(self, query, k):
        return [SearchHit(item, 1.0) for item in self.items()]


class Asks(Mine):
    async def add(self, messages):
        text = await self.context.ask([{"role": "user", "content": messages[0].text}], {})
        self.held.append(MemoryItem(messages[0].id, text, sources=(messages[0].id,)))
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with `mine.py`, as the folder of the command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MEMORY)
    return tmp_path


def tried(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of the command and what it printed on stdout."""
    code = typed("memory", "try", *words)
    return code, capsys.readouterr().out


def test_items_of_each_session_and_ranks_of_the_evidence(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence beyond k has its rank and its text. Nothing is written."""
    code, out = tried(capsys, "bm25", "--top-k", "2")
    assert code == 0
    assert "session_1, 2024-05-02: 4 messages in " in out
    assert "  + D1:4  Ben: Then I will bring the boat as well.\n  4 items stored: 4 added\n" in out
    assert "6 items stored: 2 added" in out
    assert "Rufus needs a bed of his own, I will not go without him.  ← D1:2\n" in out
    assert "  missing D2:1: rank 6 of a search for all items; --top-k is 2\n          Ben: The hut is off" in out
    assert "evidence among the first 2: 0.800 (4/5 messages)\n" in out
    assert [path.name for path in mine.iterdir()] == ["mine.py"]


def test_what_was_dropped_and_what_is_never_found(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Metadata and traces are shown. A search that raises has its traceback; the others go on."""
    code, out = tried(capsys, "mine.py:Mine")
    assert code == 1
    assert "  + D1:1  [letters=59] Nora: I booked the hut" in out
    assert "why=all" in out
    assert "missing D1:2: stored in D1:2, but a search for all items does not return it\n" in out
    assert "missing D1:4: no stored item was made of it; set `sources`" in out
    assert "✗ mine.search: [KeyError] 'euros' (mine.py:" in out
    assert 'File "mine.py", line ' in out
    assert "evidence among the first 10: 0.500 (2/4 messages), 1 question failed\n" in out


def test_a_memory_that_raises_while_it_stores(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = tried(capsys, "mine.py:Late")
    assert code == 1
    assert "✗ mine.end_session: [ValueError] too late (mine.py:" in out
    assert 'raise ValueError("too late")' in out
    assert "question 1" not in out


def test_an_item_that_is_not_active_is_archived(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = tried(capsys, "mine.py:Old")
    assert "1 not active" in out


def test_a_summary_counts_for_no_message(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = tried(capsys, "mine.py:Sums", "--question", "What is the name of Ben's dog?")
    assert code == 0
    assert "[summary; of D1:1, D1:2, D1:3]" in out
    assert "1 (of 5 messages)" in out
    assert "evidence among the first 10: 0.000 (0/1 messages)" in out
    assert "An item made of more than two messages, such as a summary, counts for none of them." in out


def test_a_question_of_ones_own_has_no_evidence(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that the data has keeps its evidence, however it is spelled."""
    code, out = tried(capsys, "bm25", "--question", "Who swims?", "--question", "what is the LAKE called?")
    assert code == 0
    assert "question 1: Who swims?" in out
    assert "the data names no evidence for this question, so nothing can be missing" in out
    assert "question 2: what is the LAKE called?" in out
    assert "(1/1 messages)" in out


def test_data_without_evidence_is_said(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk: dict[str, Any] = {
        "id": "a",
        "sessions": [{"messages": [{"speaker": "Ann", "text": f"word {n}"} for n in range(30)]}],
        "questions": [{"question": f"word {n}?", "answer": "x"} for n in range(20)],
    }
    (mine / "own.json").write_text(json.dumps([talk]))
    code, out = tried(capsys, "bm25", "--data", "own.json")
    assert code == 0
    assert "  … 18 more changes; --full shows all\n" in out
    assert "question 8: word 7?" in out
    assert "question 9" not in out
    assert "evidence: not measured, because no searched question has any" in out
    assert "8 of 20 questions asked; --full asks all" in out
    talk["sessions"][0]["messages"][0]["text"] = "long " * 100 + "tail"
    (mine / "own.json").write_text(json.dumps([talk]))
    assert "long…" in tried(capsys, "bm25", "--data", "own.json")[1].replace(" …", "…")
    _, full = tried(capsys, "bm25", "--data", "own.json", "--full")
    assert "long tail" in full
    assert "question 20: word 19?" in full
    assert "more changes" not in full


def test_a_memory_may_ask_a_model(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reply is stored. Without a model the command ends before it asks."""
    with LoopbackServer(lambda body: (200, chat(f"noted {len(body['messages'])}"))) as server:
        code, out = tried(capsys, "mine.py:Asks", "--question", "Who?", "--model", "openai/x", "--base-url", server.url)
    assert code == 0
    assert "  + D1:1  noted 1\n" in out
    assert typed("memory", "try", "RFMemory") == 2
    assert "--model is missing: RFMemory calls a model to store or search." in capsys.readouterr().err
    assert typed("memory", "try", "mine.py:Asks") == 2
    assert [path.name for path in mine.iterdir() if path.suffix != ".pyc" and path.is_file()] == ["mine.py"]


def test_a_model_that_cannot_be_asked_is_exit_code_3(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mine.py:Asks", "--model", "openai/x", "--base-url", "http://127.0.0.1:9/v1"]
    words += ["--model-args", "max_retries=0"]
    assert typed("memory", "try", *words) == 3
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bm26",), "there is no memory named 'bm26'"),
        (("bm25", "--data", "gone.json"), "gone.json: there is no such file"),
        (("bm25", "--data", "mine.py"), "mine.py is in no format of `assay memory test`"),
        (
            ("bm25", "--task-id", "holidays"),
            "there is no conversation named 'holidays'; did you mean 'holiday'?",
        ),
        (("bm25", "--memory-args", "k9=1"), "'k9'"),
    ],
)
def test_wrong_words_are_exit_code_2(
    mine: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert typed("memory", "try", *words) == 2
    assert message in capsys.readouterr().err
