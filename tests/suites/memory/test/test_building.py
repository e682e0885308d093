"""What building a memory costs: paid once, counted by purpose, repeated with other seeds. A real server counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.runner import api
from assay.store.render.tables import purpose_table

from servers.fake_openai import FakeOpenAI
from support.memory_talks import Talks, file_of, numbers_of, talk

# Asks once for each packet, and through the gateway once for each search.
BUILT = """
import asyncio, json, urllib.error, urllib.request
from assay.core.memory import AboutMemory, MemoryItem, SearchHit

ABOUT = AboutMemory(summary="asks", asks=True, options={"x": 0})

def post(request):
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        error.close()
        raise

class Built:
    def __init__(self, context):
        self.context = context
        self.held = []

    def reset(self):
        self.held = []

    async def add(self, messages):
        fact = await self.context.ask([{"role": "user", "content": "build " + messages[0].text}], {})
        self.held.append(MemoryItem(messages[0].id, messages[0].line, sources=(messages[0].id,)))

    async def search(self, query, k):
        url = await self.context.base_url() + "/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "look " + query.text}]}
        await asyncio.to_thread(post, urllib.request.Request(url, json.dumps(body).encode()))
        return [SearchHit(item) for item in self.held[-k:]]

    def items(self):
        return self.held

    def end_session(self):
        pass
"""


class Built(Talks):
    """A conversation of four messages, a memory that asks while it stores, and a server."""

    def __init__(self, folder: Path, server: FakeOpenAI) -> None:
        super().__init__(folder, talk(4))
        (folder / "built.py").write_text(BUILT)
        self.own = f"{folder}/built.py:Built"
        self.server = server

    def run(self, **options: Any) -> Any:
        """Run with the server's models. Returns the run."""
        return super().run(**{"base_url": self.server.url, "model": "", "segments": 1, **options})

    def arrived(self) -> dict[str, int]:
        """How many requests the server got since the last question, by what they are for."""
        counts = {"build": 0, "look": 0, "Memories:": 0, "judge": 0}
        for seen in self.server.stats().requests:
            counts[next((start for start in counts if seen.prompt.startswith(start)), "judge")] += 1
        self.server.reset()
        return counts


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def built(tmp_path: Path, server: FakeOpenAI) -> Built:
    return Built(tmp_path, server)


def test_an_embedder_that_cannot_be_loaded_costs_no_call(built: Built, tmp_path: Path) -> None:
    """Neither of the memory that embeds nor of another one of the run. A run without such a memory does not load it."""
    (tmp_path / "weights.py").write_text("def load():\n    raise OSError('no weights')\n")
    embedder = f"{tmp_path}/weights.py:load"
    with pytest.raises(UsageError, match="cannot be loaded: it raised OSError: no weights"):
        built.run(memory=["bm25", built.own, "GAMemory"], model="openai/m", embedder=embedder)
    assert built.server.stats().requests == []
    assert built.run(memory=["bm25"], model="openai/m", embedder=embedder).exit_code == 0


def test_another_answer_model_or_top_k_builds_nothing_again(built: Built) -> None:
    """The replies come from the run before, and the seconds of building are those of that run."""
    built.server.behave(latency=0.05)
    first = built.run(build_model="openai/b", answer_model="openai/one")
    assert built.arrived() == {"build": 2, "look": 4, "Memories:": 4, "judge": 0}
    other = built.run(build_model="openai/b", answer_model="openai/two")
    assert built.arrived() == {"build": 0, "look": 0, "Memories:": 4, "judge": 0}
    fewer = built.run(build_model="openai/b", answer_model="openai/two", top_k=1)
    assert built.arrived()["build"] == 0
    assert len({run.folder for run in (first, other, fewer)}) == 3
    stages, before = numbers_of(other)["stages"], numbers_of(first)["stages"]
    assert [(stages[name]["calls"], stages[name].get("reused")) for name in ("build", "retrieve", "answer")] == [
        (2, 2),
        (4, 4),
        (4, None),
    ]
    assert stages["build"]["input_tokens"] == before["build"]["input_tokens"]
    assert "reused" not in before["build"]
    # Two replies that took 0.05 s each when they were sent.
    assert stages["build"]["seconds"] >= 0.1
    assert file_of(other)["experiment_info"]["model"] == "openai/two"
    (pair,) = api.compare([str(first.folder), str(other.folder)]).comparisons
    table = purpose_table(pair)
    assert table.header[:3] == ["stage", "calls", "reused"]
    assert [row[:3] for row in table.rows] == [
        ["build", "2 → 2", "0 → 2"],
        ["retrieve", "4 → 4", "0 → 4"],
        ["answer", "4 → 4", "0 → 0"],
    ]


def test_another_judge_asks_only_the_judge(built: Built) -> None:
    built.run(model="openai/m", judge="openai/one")
    asked = built.arrived()
    assert asked["build"] == 2
    assert asked["judge"] == 8  # no reply is a verdict, so each is asked for once more
    run = built.run(model="openai/m", judge="openai/two")
    assert built.arrived() == {"build": 0, "look": 0, "Memories:": 0, "judge": 8}
    assert numbers_of(run)["stages"]["judge"]["calls"] == 8


def test_a_damaged_run_beside_it_stops_nothing(built: Built) -> None:
    """It lends no replies, and `assay check` names the damage."""
    first = built.run(build_model="openai/b", answer_model="openai/one")
    built.arrived()
    (first.folder / "run.json").write_bytes(b"")
    run = built.run(build_model="openai/b", answer_model="openai/two")
    assert (run.exit_code, built.arrived()["build"]) == (0, 2)


def test_another_build_model_builds_again(built: Built) -> None:
    built.run(build_model="openai/b", answer_model="openai/one")
    built.arrived()
    built.run(build_model="openai/c", answer_model="openai/one")
    assert built.arrived()["build"] == 2


def test_fresh_takes_no_reply_of_another_run(built: Built) -> None:
    built.run(build_model="openai/b", answer_model="openai/one")
    built.arrived()
    built.run(build_model="openai/b", answer_model="openai/two", fresh=True)
    assert built.arrived()["build"] == 2


def test_settings_of_one_memory_are_built_once(built: Built) -> None:
    """Also after a stop: the replies of one setting in the log are those of the other."""
    settings = [f"{built.own},x=1", f"{built.own},x=2"]
    run = built.run(model="openai/m", memory=settings)
    assert built.arrived() == {"build": 2, "look": 4, "Memories:": 8, "judge": 0}
    assert run.exit_code == 0
    built.run(model="openai/m", memory=settings, seed=7, max_calls=3)
    built.run(model="openai/m", memory=settings, seed=7)
    arrived = built.arrived()
    assert (arrived["build"], arrived["look"]) == (2, 4)


def test_another_seed_builds_again(built: Built) -> None:
    """Whoever changes the seed wants other replies. No request of the log shows the seed."""
    built.run(model="openai/m")
    built.arrived()
    built.run(model="openai/m", seed=99)
    assert built.arrived()["build"] == 2


def test_the_judge_has_its_cost(built: Built) -> None:
    (built.folder / "prices.yaml").write_text("as_of: 2026-01-31\nmodels: {openai/jud: {input: 2, output: 4}}\n")
    run = built.run(model="openai/m", judge="openai/jud", prices=f"{built.folder}/prices.yaml")
    judge = numbers_of(run)["stages"]["judge"]
    # Eight calls of 7 tokens in and 5 out, in dollars for a million.
    assert judge["cost"] == pytest.approx(8 * (7 * 2 + 5 * 4) / 1e6)


def test_repeats_build_with_other_seeds_and_show_their_spread(built: Built) -> None:
    """The first repeat has the run's seed. Answers are asked with the run's seed in every repeat."""
    run = built.run(model="openai/m", repeats=3)
    for start in ("build ", "look "):  # by `ask`, and through the gateway
        seeds = {seen.seed for seen in built.server.stats().requests if seen.prompt.startswith(start)}
        assert seeds == {1234, 1_001_234, 2_001_234}
    assert [entry.name for entry in run.report.entries] == ["built#1", "built#2", "built#3"]
    repeats = next(table for table in run.report.tables if table.name == "repeats")
    assert repeats.rows[0][:2] == ["built", 3]


def test_a_model_that_is_needed_and_not_named_is_named(built: Built) -> None:
    with pytest.raises(UsageError, match="Name the model that answers with --model or --answer-model, or only"):
        built.run(build_model="openai/b")
    with pytest.raises(UsageError, match="--model is missing: built calls a model to store or search"):
        built.run(answer_model="openai/b")
    with pytest.raises(UsageError, match="--answer-model has no effect: --no-answer asks for no answers"):
        built.run(model="openai/b", answer_model="openai/c", no_answer=True)
    with pytest.raises(UsageError, match="--embedder-kwargs has no effect: wordllama sends no requests"):
        built.run(model="openai/b", embedder_kwargs={"dimensions": 8})


def test_settings_of_one_memory_are_compared_by_score_and_cost(built: Built) -> None:
    run = built.run(model="openai/m", memory=["bm25,k=1", "bm25,k=4", "FUMemory"])
    costs = next(table for table in run.report.tables if table.name == "costs")
    assert costs.columns[:3] == ["memory", "token F1", "context tokens"]
    ranks = {entry.name: entry.metric("recall_at_4") for entry in run.report.entries}
    assert ranks["bm25,k=1"] is None  # it never returns four items
    assert ranks["bm25,k=4"] is not None
    # The server says that every prompt has 7 tokens and every reply 5.
    assert [row[0] for row in costs.rows] == ["bm25,k=1", "bm25,k=4", "FUMemory"]
    assert [row[2] for row in costs.rows] == [7, 7, 7]
    retrieved = {path.parents[2].name: path for path in run.files if path.name == "0000.json"}
    (test,) = json.loads(retrieved["bm25,k=1"].read_text())["test_results"]
    assert [len(question["retrieved"]) for question in test["questions"]] == [1, 1, 1, 1]
