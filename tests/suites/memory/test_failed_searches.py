"""A search that asks a model: a failure of the endpoint is tried again, a refusal of the model costs the question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.runner import api

from servers.loopback import LoopbackServer, chat
from support.memory_samples import Samples, entry_of, lines
from support.memory_talks import Talks, file_of, numbers_of

MEMORY = """
from assay.core.memory import AboutMemory, MemoryItem, SearchHit

ABOUT = AboutMemory(summary="asks a model for each search", asks=True)

class Own:
    def __init__(self, context):
        self.context = context
        self.held = []

    def reset(self):
        self.held = []

    def add(self, messages):
        self.held += [MemoryItem(each.id, each.line, sources=(each.id,)) for each in messages]

    async def search(self, query, k):
        await self.context.ask([{"role": "user", "content": f"look for {query.text}"}], {})
        return [SearchHit(item) for item in self.held[:k]]

    def items(self):
        return list(self.held)

    def end_session(self):
        pass
"""


class Endpoint(LoopbackServer):
    """Answers everything, except that a search for `word` gets this status and body."""

    def __init__(self, word: str, status: int, body: dict[str, Any]) -> None:
        self.fails = True
        self.searches = 0

        def reply(request: dict[str, Any]) -> tuple[int, Any]:
            said = request["messages"][-1]["content"]
            if said.startswith("look for "):
                self.searches += 1
                if self.fails and word in said:
                    return status, body
            return 200, chat("fine")

        super().__init__(reply)


DOWN = (500, {"error": {"message": "down"}})
REFUSED = (400, {"error": {"message": "not this one", "code": "content_filter"}})


def run_talks(talks: Talks, server: Endpoint) -> assay.Run:
    """Test the memory with the endpoint, without retries."""
    return talks.run(model="openai/x", base_url=server.url, segments=1, max_retries=0)


def test_a_search_whose_endpoint_fails_is_tried_again(tmp_path: Path) -> None:
    """The run ends with 3 and has no file. The same command sends only the searches that are missing."""
    talks = Talks(tmp_path)
    (tmp_path / "own.py").write_text(MEMORY)
    with Endpoint("fruit2", *DOWN) as server:
        assert run_talks(talks, server).exit_code == 3
        server.fails = False
        before = server.searches
        run = run_talks(talks, server)
        assert run.exit_code == 0
        assert server.searches == before + 3
    (test,) = file_of(run)["test_results"]
    assert not any("error" in question for question in test["questions"])


def test_a_search_that_the_model_refuses_costs_its_question(tmp_path: Path) -> None:
    talks = Talks(tmp_path)
    (tmp_path / "own.py").write_text(MEMORY)
    with Endpoint("fruit2", *REFUSED) as server:
        run = run_talks(talks, server)
    assert run.exit_code == 0
    (test,) = file_of(run)["test_results"]
    assert ["error" in question for question in test["questions"]] == [False, True, False, False]
    assert numbers_of(run)["counts"]["failed_searches"] == 1


@pytest.mark.parametrize(("answer", "code"), [(DOWN, 3), (REFUSED, 0)])
def test_the_same_holds_for_memory_eval(tmp_path: Path, answer: tuple[int, Any], code: int) -> None:
    samples = Samples(tmp_path)
    (tmp_path / "own.py").write_text(MEMORY)
    with Endpoint("pet2x1", *answer) as server:
        options: dict[str, Any] = {"model": "openai/x", "base_url": server.url, "max_retries": 0}
        run = samples.run(baseline=[f"{tmp_path}/own.py:Own"], **options)
        assert run.exit_code == code
        if code == 3:
            assert lines(samples.out / "pipeline_qa.jsonl") == []
            server.fails = False
            again = samples.run(baseline=[f"{tmp_path}/own.py:Own"], **options)
            assert again.exit_code == 0
            assert "failed_searches" not in entry_of(again, "own").counts
            return
    assert [row["generated_answer"] for row in lines(samples.out / "pipeline_qa.jsonl")] == [
        "fine",
        "",
        "fine",
    ]
    assert entry_of(run, "own").counts["failed_searches"] == 1


@pytest.mark.parametrize("only_searched", [False, True])
def test_a_memory_whose_every_search_fails_is_not_compared(tmp_path: Path, only_searched: bool) -> None:
    """Its zeros are no measure, in a comparison as little as in the table; a gate does not take that for a pass."""
    talks = Talks(tmp_path)
    own = tmp_path / "own.py"
    own.write_text(own.read_text().replace("words = set(", "raise KeyError('index'); words = set("))
    run = talks.run(memory=["bm25", talks.own], no_answer=only_searched)
    assert run.exit_code == 0
    (comparison,) = api.compare(run).comparisons
    assert comparison.rows
    for row in comparison.rows:
        assert (row.n, row.new) == (0, None), row
        # The ranks of evidence have no score at all where a search failed.
        assert list(row.left_out) in (["no answer in new"], ["not scored in new"]), row
    assert comparison.now_failing.count == 0
    headline = run.report.entries[0].metrics[0].name if run.report else ""
    told = f"plain {headline}: it was measured, and the new side has no answer"
    assert told in comparison.significant_regressions
    assert told in comparison.regressions
