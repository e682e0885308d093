"""A memory of the user that exits, raises or hangs: storing fails its conversation, a search only its question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.memory_talks import Talks, file_of, numbers_of, talk

MEMORY = """
import asyncio, sys, time
from assay.core.memory import AboutMemory, SearchHit, MemoryItem

ABOUT = AboutMemory(summary="misbehaves when it meets the word poison", quick=QUICK)

class Own:
    def __init__(self, context):
        self.items_ = []

    def reset(self):
        self.items_ = []

    PREFIXdef add(self, messages):
        for message in messages:
            if "poison" in message.text:
                BODY
            self.items_.append(MemoryItem(message.id, message.line, sources=(message.id,)))

    def search(self, query, k):
        return (self.hit(item) for item in self.items_)

    def hit(self, item):
        if "venom" in item.text:
            LATER
        return SearchHit(item)

    def items(self):
        return self.items_

    def end_session(self):
        pass
"""


def journal_failures(output: Path) -> list[dict[str, Any]]:
    """Every failure in the journal of the run below this folder."""
    lines = [line for path in output.rglob("records.jsonl") for line in path.read_text().splitlines()]
    commits = [line.get("end") or line for line in map(json.loads, lines)]
    return [commit["failure"] for commit in commits if "failure" in commit]


def own_code(body: str, later: str, prefix: str = "", *, quick: bool = False) -> str:
    """The memory that does `body` when it stores `poison`, and `later` when it finds `venom`."""
    return MEMORY.replace("PREFIX", prefix).replace("BODY", body).replace("LATER", later).replace("QUICK", str(quick))


def failed(tmp_path: Path, word: str, body: str, prefix: str = "", *, quick: bool = False) -> dict[str, Any]:
    """The failure of the conversation with the word; the other conversation is fine."""
    talks = Talks(tmp_path, talk(4), talk(4, "b", word))
    (tmp_path / "own.py").write_text(own_code(body, "pass", prefix, quick=quick))
    run = talks.run(timeout=1.0)
    assert (run.summary.ok, run.summary.subject_error) == (1, 1)
    assert run.exit_code == 0
    (failure,) = journal_failures(talks.folder / "out")
    assert failure["kind"] == "user_code"
    return failure


WAYS = [("", False), ("", True), ("async ", False)]


@pytest.mark.parametrize(("prefix", "quick"), WAYS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(0)", "own.add: [SystemExit] 0 (own.py:"),
        ("raise KeyboardInterrupt", "own.add: [KeyboardInterrupt]  (own.py:"),
        ("raise KeyError('gone')", "own.add: [KeyError] 'gone' (own.py:"),
    ],
)
def test_what_add_raises_fails_its_conversation(
    tmp_path: Path, body: str, message: str, prefix: str, quick: bool
) -> None:
    """The other conversation is scored; the journal has the user's lines and none of ours."""
    failure = failed(tmp_path, "poison", body, prefix, quick=quick)
    assert failure["message"].startswith(message)
    assert body in failure["traceback"]
    assert 'own.py", line' in failure["traceback"]
    assert "timed_memory.py" not in failure["traceback"]


@pytest.mark.parametrize("body", ["sys.exit(4)", "raise ValueError('no')"])
@pytest.mark.parametrize("quick", [False, True])
def test_a_search_that_raises_costs_its_question(tmp_path: Path, body: str, quick: bool) -> None:
    """A search may return a generator, whose code runs when the hits are read. The conversation goes on."""
    talks = Talks(tmp_path, talk(4), talk(4, "b", "venom"))
    (tmp_path / "own.py").write_text(own_code("pass", body, quick=quick))
    run = talks.run(segments=1, top_k=4)
    assert (run.exit_code, run.summary.ok) == (0, 2)
    numbers = numbers_of(run)
    assert [numbers["counts"][name] for name in ("answers", "errors", "failed_searches")] == [8, 4, 4]
    failed = file_of(run, "0001.json")["test_results"][0]["questions"]
    assert {question["predicted_answer"] for question in failed} == {""}
    assert all(question["error"].startswith("own.search: [") for question in failed)
    assert "own.py:" in failed[0]["error"]
    # The failed half counts as not found and not answered, and its searches have no seconds.
    assert [each["value"] for each in numbers["metrics"] if each["metric"] == "evidence_recall"] == [0.5]
    assert numbers["stages"]["retrieve"]["operations"] == 4


def test_a_memory_whose_every_search_raises_measures_nothing(tmp_path: Path) -> None:
    """An evidence recall of 0.000 would look like a measured one."""
    talks = Talks(tmp_path, talk(2, "b", "venom"))
    (tmp_path / "own.py").write_text(own_code("pass", "raise ValueError('no')"))
    run = talks.run(no_answer=True, model="", segments=1)
    assert run.exit_code == 1
    assert run.report is not None
    assert {metric.value for metric in run.report.entries[0].metrics} == {None}


@pytest.mark.parametrize(("prefix", "body"), [("", "time.sleep(20)"), ("async ", "await asyncio.sleep(20)")])
def test_a_memory_that_hangs_ends_with_its_time(tmp_path: Path, prefix: str, body: str) -> None:
    assert failed(tmp_path, "poison", body, prefix)["message"] == "own.add: it took longer than 1 s"


def test_a_memory_that_cannot_be_made_fails_its_case(tmp_path: Path) -> None:
    """`sys.exit` in the constructor as well."""
    talks = Talks(tmp_path)
    (tmp_path / "own.py").write_text("import sys\ndef Own(context):\n    sys.exit('bye')\n")
    run = talks.run()
    assert run.summary.subject_error == 1
    (failure,) = journal_failures(talks.folder / "out")
    assert failure["message"] == "own: [SystemExit] bye (own.py:3: sys.exit('bye'))"
