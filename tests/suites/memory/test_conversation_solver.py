"""How a conversation is fed: in which order a memory is called, what it may use, whose failure is whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError

from servers.fake_openai import FakeOpenAI
from support.memory_talks import Talks, file_of, numbers_of, talk

NOTING = """
from pathlib import Path
from assay.core.memory import AboutMemory, SearchHit, MemoryItem

ABOUT = AboutMemory(summary="notes what it is called with", asks=True, options={"word": "none", "asking": False})

class Noting:
    def __init__(self, around):
        self.around = around
        self.held = []
        self.note(f"word {around.options['word']} in an empty folder {not any(around.folder.iterdir())}")

    def note(self, text):
        with Path(__file__).with_name("noted.txt").open("a") as file:
            file.write(text + "\\n")

    def reset(self):
        self.held = []

    def add(self, messages):
        self.note("add " + " ".join(message.id for message in messages))
        self.held += [MemoryItem(message.id, message.line, sources=(message.id,)) for message in messages]
        return self.told("store") if self.around.options["asking"] else None

    def search(self, query, k):
        self.note(f"search {query.text[-1]}")
        return self.later(k)

    async def later(self, k):
        if self.around.options["asking"]:
            await self.told("look")
            await self.told("look again")
        return [SearchHit(item) for item in self.held[-k:]]

    async def told(self, text):
        await self.around.ask([{"role": "user", "content": text}], {})

    def items(self):
        return self.held

    def end_session(self):
        self.note("end")
"""
DOWN = """
from pathlib import Path
from assay.core.errors import ModelError
from assay.core.types import Failure

def answer(messages, params):
    said = messages[-1]["content"]
    if Path(__file__).with_name("down.txt").read_text() in said:
        raise ModelError(Failure("server_error", "it is down"))
    return " fruit \\n"
"""


class Noted(Talks):
    """Sessions of five and two messages, with a question for the second and the last message."""

    def __init__(self, folder: Path) -> None:
        one: dict[str, Any] = talk(5)
        one["sessions"].append({"messages": [{"text": "x"}, {"text": "y"}]})
        one["questions"] = [
            {"question": f"which {at}", "answer": "fruit", "evidence": [place]}
            for at, place in enumerate(("D1:2", "D2:2"), 1)
        ]
        super().__init__(folder, one)
        (folder / "noting.py").write_text(NOTING)
        self.own = f"{folder}/noting.py:Noting"

    def down(self, when: str) -> None:
        """A model that cannot be reached for prompts with these words."""
        (self.folder / "model.py").write_text(DOWN)
        (self.folder / "down.txt").write_text(when)

    @property
    def noted(self) -> list[str]:
        """Every call of the memory."""
        return (self.folder / "noted.txt").read_text().splitlines()


@pytest.fixture
def noted(tmp_path: Path) -> Noted:
    return Noted(tmp_path)


def test_packets_sessions_and_searches_come_in_order(noted: Noted) -> None:
    """Two messages of a session at a time; a session ends once, before what is asked after it."""
    noted.run(segments=2)
    assert noted.noted == [
        "word none in an empty folder True",
        "add D1:1 D1:2",
        "search 1",
        "add D1:3 D1:4",
        "add D1:5",
        "end",
        "add D2:1 D2:2",
        "end",
        "search 1",
        "search 2",
    ]


def test_a_memory_has_the_options_that_it_knows(noted: Noted) -> None:
    """What no memory of the run knows is refused before anything is fed."""
    noted.run(memory_args={"word": "given"})
    assert noted.noted[0].startswith("word given ")
    with pytest.raises(UsageError, match="no option of these memories named 'wrod'; did you mean 'word'"):
        noted.run(memory_args={"wrod": "x"})


def test_a_memory_that_asks_needs_a_model_for_searching_alone(noted: Noted) -> None:
    with pytest.raises(UsageError, match="--model is missing: .* calls a model to store or search"):
        noted.run(model="", no_answer=True)


def test_tokens_are_counted_by_who_asked(noted: Noted) -> None:
    """Four packets stored, three searches of two calls, three answers; 7 in and 5 out each."""
    with FakeOpenAI() as server:
        run = noted.run(segments=2, model="openai/fake", base_url=server.url, memory_args={"asking": True})
    stages = numbers_of(run)["stages"]
    tokens = {name: (each["calls"], each["input_tokens"], each["output_tokens"]) for name, each in stages.items()}
    assert tokens == {"build": (4, 28, 20), "retrieve": (6, 42, 30), "answer": (3, 21, 15)}


def test_an_endpoint_that_is_down_ends_no_conversation(noted: Noted) -> None:
    """The answers that came are kept; the same command asks only for what is missing."""
    noted.down("which 2")
    first = noted.run(segments=2, max_retries=0)
    assert (first.exit_code, first.summary.infra_error) == (3, 1)
    noted.down("nothing of the kind")
    again = noted.run(segments=2, max_retries=0)
    assert (again.exit_code, again.summary.this_start["paid"]) == (0, 1)
    questions = [one for test in file_of(again)["test_results"] for one in test["questions"]]
    assert [one["predicted_answer"] for one in questions] == ["fruit"] * 3


def test_a_memory_is_not_blamed_for_its_endpoint(noted: Noted) -> None:
    """What it asked and nobody answered is asked again, and no fault of its code."""
    noted.down("store")
    run = noted.run(max_retries=0, memory_args={"asking": True})
    assert (run.exit_code, run.summary.failures) == (3, {"server_error": 1})


def test_only_searching_names_no_model_and_no_time_of_answers(noted: Noted) -> None:
    """Though a model is there, for the memory."""
    found = file_of(noted.run(no_answer=True))
    assert "model" not in found["experiment_info"]
    timings = [one["timings"] for test in found["test_results"] for one in test["questions"]]
    assert all(list(one) == ["search_seconds"] for one in timings)


def test_a_run_that_is_stopped_while_answers_wait_is_not_over(noted: Noted) -> None:
    """A conversation with answers missing has no end; the rest is asked when the run continues."""
    first = noted.run(segments=2, max_calls=2)
    assert (first.exit_code, first.summary.ok, first.files) == (3, 0, [])
    again = noted.run(segments=2)
    assert (again.exit_code, again.summary.this_start["paid"]) == (0, 1)
    counts = [len(test["questions"]) for test in file_of(again)["test_results"]]
    assert counts == [1, 2]
