"""Metrics of ranked items, computed by hand, and where a run shows them."""

from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.runner import api
from assay.suites.memory.test.conversation import MessagePlace
from assay.suites.memory.test.retrieval import retrieval_metrics, retrieval_values, session_recall

from support.memory_talks import Talks, numbers_of, talk

SECOND = 1 / log2(3)
THIRD = 1 / log2(4)


def items(*sources: str) -> list[list[str]]:
    """Return hits in this order. `D1:1+D1:2` is an item made of two messages, and `-` one of no evidence."""
    return [[f"item{rank}", *text.split("+")] for rank, text in enumerate(sources, 1)]


@pytest.mark.parametrize(
    ("hits", "evidence", "values"),
    [
        # The first item is right.
        (
            items("A", "-"),
            "A",
            {"recall_at_1": 1.0, "recall_at_3": 1.0, "precision": 0.5, "mrr": 1.0, "ndcg": 1.0},
        ),
        # One of two, at rank 2. The best list has both, at ranks 1 and 2.
        (
            items("-", "A", "-"),
            "AB",
            {
                "recall_at_1": 0.0,
                "recall_at_3": 0.5,
                "precision": 1 / 3,
                "mrr": 0.5,
                "ndcg": SECOND / (1 + SECOND),
            },
        ),
        # A message that is found twice counts once. Both items are relevant.
        (
            items("A", "A", "B"),
            "AB",
            {
                "recall_at_1": 0.5,
                "recall_at_3": 1.0,
                "precision": 1.0,
                "mrr": 1.0,
                "ndcg": (1 + THIRD) / (1 + SECOND),
            },
        ),
        # An item of two messages has both: no list is better.
        (
            items("A+B"),
            "AB",
            {"recall_at_1": 1.0, "recall_at_3": 1.0, "precision": 1.0, "mrr": 1.0, "ndcg": 1.0},
        ),
        # A summary of three messages has rank 1 and counts for none of them.
        (
            items("A+B+C", "A"),
            "A",
            {"recall_at_1": 0.0, "recall_at_3": 1.0, "precision": 0.5, "mrr": 0.5, "ndcg": SECOND},
        ),
        # Nothing is found.
        (
            items("-"),
            "A",
            {"recall_at_1": 0.0, "recall_at_3": 0.0, "precision": 0.0, "mrr": 0.0, "ndcg": 0.0},
        ),
        # Nothing is returned: there is no precision.
        ([], "A", {"recall_at_1": 0.0, "recall_at_3": 0.0, "mrr": 0.0, "ndcg": 0.0}),
        # Four pieces of evidence and three items: the best list of three has the value 1.
        (
            items("A", "B", "C"),
            "ABCD",
            {"recall_at_1": 0.25, "recall_at_3": 0.75, "precision": 1.0, "mrr": 1.0, "ndcg": 1.0},
        ),
    ],
)
def test_values_are_those_computed_by_hand(hits: list[list[str]], evidence: str, values: dict[str, float]) -> None:
    """--top-k is 3, so recall@5 and recall@10 do not exist."""
    assert retrieval_values(hits, list(evidence), 3) == pytest.approx(values)


def test_ranks_above_top_k_have_no_recall() -> None:
    assert [name for name in retrieval_values([], ["A"], 20) if name.startswith("recall")] == [
        "recall_at_1",
        "recall_at_5",
        "recall_at_10",
        "recall_at_20",
    ]


def test_items_of_one_text_have_no_ranks() -> None:
    assert retrieval_values(items("-", "A"), ["A"], 10, ranked=False) == {"precision": 0.5}


def test_an_item_counts_for_the_only_session_of_its_messages() -> None:
    """A summary of one session is a hit of that session. A summary of two is none."""
    places = {f"D{session}:{n}": MessagePlace(n, f"s{session}") for session in (1, 2, 3) for n in range(1, 5)}
    one = [["x", "D1:1", "D1:2", "D1:3"]]
    assert session_recall(one, {"s1"}, places) == 1.0
    assert session_recall(one, {"s1", "s2"}, places) == 0.5
    assert session_recall([["x", "D1:1", "D2:1"], ["y", "D3:1"]], {"s1", "s2"}, places) == 0.0
    assert session_recall(one, set(), places) is None


def test_metrics_are_sorted_by_their_rank() -> None:
    names = {"ndcg", "recall_at_10", "recall_at_5", "f1", "mrr", "recall_at_x"}
    assert retrieval_metrics(names) == ["recall_at_5", "recall_at_10", "mrr", "ndcg"]


def run_of(talks: Talks, **more: Any) -> assay.Run:
    """Run bm25 and FUMemory, which returns one text, without answers."""
    options = {"memory": ["bm25", "FUMemory"], "model": "", "no_answer": True, "ask": "both", "top_k": 10}
    return talks.run(**options | more)


def test_a_report_has_a_table_of_retrieval_beside_the_headline(tmp_path: Path) -> None:
    """The columns are the same for all memories. What a memory does not have is a dash, not 0."""
    run = run_of(Talks(tmp_path, talk(12)))
    assert run.report is not None
    first, whole = run.report.entries
    assert [metric.name for metric in first.metrics if not metric.table] == ["evidence_recall"]
    (table,) = [table for table in first.tables if table.name == "retrieval"]
    (other,) = [table for table in whole.tables if table.name == "retrieval"]
    names = ["questions", "recall@1", "recall@5", "recall@10", "precision", "MRR", "NDCG", "sessions"]
    assert table.columns == other.columns == names
    assert other.rows == [[12, None, None, None, "0.083", None, None, "1.000"]]
    mrr = first.metric("mrr")
    assert mrr is not None
    assert (mrr.denominator, mrr.unit, mrr.clusters) == (12, "question", 1)
    assert table.rows[0][5] == f"{mrr.value:.3f}"


def test_only_the_last_test_has_retrieval_metrics(tmp_path: Path) -> None:
    """Earlier tests have evidence recall only, so that each question counts once."""
    summary = numbers_of(run_of(Talks(tmp_path, talk(12))), "bm25")
    assert [test for test in summary["tests"] if "mrr" in test] == summary["tests"][-1:]
    assert summary["categories"]["plain"]["ndcg"]["n"] == 12


def test_compare_judges_headlines_without_counting_the_retrieval_metrics(tmp_path: Path) -> None:
    """The p of the only headline is not adjusted for the rows of other metrics."""
    talks = Talks(tmp_path, *(talk(12, name) for name in "abcdefgh"))
    run = run_of(talks, memory=["bm25", "STMemory"])
    (comparison,) = api.compare(run).comparisons
    rows = {row.metric: row for row in comparison.rows}
    assert rows["evidence_recall"].p == rows["evidence_recall"].p_adjusted
    assert (rows["mrr"].n, rows["ndcg"].n) == (96, 96)
    assert (rows["mrr"].p_adjusted or 0) > (rows["mrr"].p or 0)


def test_the_size_of_a_memory_is_counted_at_the_end(tmp_path: Path) -> None:
    """Items and characters are means over conversations. Four characters count as a token."""
    talks = Talks(tmp_path, talk(4), talk(8, "b"))
    size = numbers_of(run_of(talks, memory=[talks.own]))["size"]
    characters = len("Ann: Bob likes fruit1")
    assert size == {
        "conversations": 2,
        "unknown": 0,
        "items": 6.0,
        "characters": 6.0 * characters,
        "tokens": 6.0 * characters / 4,
        "why": "",
    }


def test_a_memory_that_cannot_list_its_items_keeps_its_scores(tmp_path: Path) -> None:
    talks = Talks(tmp_path)
    path = tmp_path / "own.py"
    path.write_text(path.read_text().replace("        return self.held\n", "        raise ValueError('no list')\n"))
    run = run_of(talks, memory=[talks.own])
    summary = numbers_of(run)
    assert (summary["counts"]["conversations"], summary["counts"]["failed"]) == (1, 0)
    assert (summary["size"]["items"], summary["size"]["unknown"]) == (None, 1)
    assert "no list" in summary["size"]["why"]


def test_retrieval_is_measured_although_every_answer_failed(tmp_path: Path) -> None:
    """What the memory found does not depend on the model."""
    conversation = talk()
    for question in conversation["questions"]:
        question["question"] += " boom"
    run = Talks(tmp_path, conversation).run(ask="at-end")
    assert run.report is not None
    values = {metric.name: metric.value for metric in run.report.entries[0].metrics}
    assert values["f1"] is None
    assert values["evidence_recall"] == values["session_recall"] == 1.0
    assert values["mrr"] == 1.0
