"""What a memory's own code gives is checked where it comes in: a slip costs its sample, and never the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_samples import Samples, entry_of, lines

MEMORY = """
import numpy as np
from assay.core.memory import SearchHit, MemoryItem

class Own:
    def __init__(self, around): self.held = []
    def reset(self): self.held = []
    def add(self, messages): self.held += [MemoryItem(ID, TEXT, message.session) for message in messages]
    def search(self, query, k): return [SearchHit(item, SCORE) for item in self.held]
    def items(self): return self.held * TIMES
    def end_session(self): pass
"""
RIGHT = {"ID": "message.id", "TEXT": "message.text", "SCORE": "0.5", "TIMES": "1"}


def given(tmp_path: Path, **other: str) -> Samples:
    """A memory of the user's that holds every message."""
    code = MEMORY
    for name, value in (RIGHT | other).items():
        code = code.replace(name, value)
    (tmp_path / "own.py").write_text(code)
    return Samples(tmp_path)


@pytest.mark.parametrize("score", ["np.float32(0.5)", "np.float64(0.5)", "np.int64(2) / 4", "True / 2", "0.5"])
def test_scores_of_libraries_are_numbers(tmp_path: Path, score: str) -> None:
    """As a sum of numpy gives them."""
    samples = given(tmp_path, SCORE=score)
    assert samples.run(baseline=[f"{tmp_path}/own.py:Own"]).exit_code == 0
    items = lines(samples.out / "pipeline_qa.jsonl")[0]["retrieval"]["items"]
    assert {item["score"] for item in items} == {0.5}


def test_the_first_k_count(tmp_path: Path) -> None:
    """A memory that ignores k would have an advantage over all others."""
    samples = given(tmp_path)
    samples.run(baseline=[f"{tmp_path}/own.py:Own"], top_k=3)
    found = [len(row["retrieval"]["items"]) for row in lines(samples.out / "pipeline_qa.jsonl")]
    assert found == [2, 3, 3]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"ID": "'note'"},
            "own.items: [ValueError] it returned two items with the id 'note'; ids must be unique",
        ),
        ({"TIMES": "2"}, "own.items: [ValueError] it returned two items with the id "),
        ({"ID": "int(message.id)"}, "own.items: id, text, session, kind and status of an item must be texts"),
        ({"TEXT": "None"}, "own.items: id, text, session, kind and status of an item must be texts"),
        ({"TEXT": "np.arange(2)"}, "own.items: id, text, session, kind and status of an item must be texts"),
    ],
)
def test_a_slip_is_told(tmp_path: Path, wrong: dict[str, str], told: str) -> None:
    """By the method that made it; the sample is named and has no lines, and the run ends well."""
    samples = given(tmp_path, **wrong)
    run = samples.run(baseline=[f"{tmp_path}/own.py:Own"])
    ((failure,),) = [examples.shown for examples in entry_of(run, "own").examples]
    assert told in failure.reason
    assert lines(samples.out / "pipeline_qa.jsonl") == []


@pytest.mark.parametrize(
    ("score", "told"),
    [
        ("None", "[TypeError]"),
        ("'much'", "[ValueError]"),
        ("float('nan')", "[ValueError] the score of the item '"),
        ("np.float32('inf')", "[ValueError] the score of the item '"),
    ],
)
def test_a_slip_of_a_search_costs_its_question(tmp_path: Path, score: str, told: str) -> None:
    """The sessions have their lines, and each question has the error of its search."""
    samples = given(tmp_path, SCORE=f"0.5 if '1x1' in query.text else {score}")
    run = samples.run(baseline=[f"{tmp_path}/own.py:Own"])
    assert run.exit_code == 0
    assert len(lines(samples.out / "pipeline_sessions.jsonl")) == 3
    first, *others = lines(samples.out / "pipeline_qa.jsonl")
    assert first["generated_answer"]
    assert first["retrieval"]["raw_trace"] == {"baseline": "own"}
    for row in others:
        assert (row["generated_answer"], row["retrieval"]["items"]) == ("", [])
        assert row["retrieval"]["raw_trace"]["error"].startswith(f"own.search: {told}")
    entry = entry_of(run, "own")
    assert (entry.counts["errors"], entry.counts["failed_searches"]) == (2, 2)


def test_an_item_that_a_search_returns_twice_costs_its_question(tmp_path: Path) -> None:
    """It would take the places of other items among the first k."""
    samples = given(tmp_path, SCORE="0.5) for _ in (range(2) if '1x1' in query.text else range(1)")
    run = samples.run(baseline=[f"{tmp_path}/own.py:Own"])
    assert run.exit_code == 0
    first, *others = lines(samples.out / "pipeline_qa.jsonl")
    error = first["retrieval"]["raw_trace"]["error"]
    assert error.startswith("own.search: [ValueError] it returned two items with the id ")
    assert first["retrieval"]["items"] == []
    assert all(row["generated_answer"] for row in others)


def test_a_memory_whose_every_search_raises_has_no_score_of_questions(tmp_path: Path) -> None:
    """Neither of answers nor of the evidence that it did not look for. What it stores is measured."""
    run = given(tmp_path, SCORE="None").run(baseline=[f"{tmp_path}/own.py:Own"])
    assert run.exit_code == 1
    values = {metric.name: metric.value for metric in entry_of(run, "own").metrics}
    assert (values["answer"], values["retrieved_evidence"]) == (None, None)
    assert values["recall"] == 1.0
