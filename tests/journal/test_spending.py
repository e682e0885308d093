"""What the calls of a run cost, as summary.json has it."""

from __future__ import annotations

import msgspec

from assay.core.types import ASK, Response, Usage
from assay.journal.spending import CallCounts, Spending

REST = {
    "unpriced_calls": 0,
    "judge_replies": 0,
    "cut_replies": 0,
    "empty_replies": 0,
    "judge_cut_replies": 0,
    "judge_empty_replies": 0,
}


def written(spending: Spending) -> list[tuple[str, int]]:
    """The keys and values of `spent` in their order."""
    return list(msgspec.json.decode(msgspec.json.encode(spending.counts()), type=dict[str, int]).items())


def test_tokens_are_left_out_if_calls_were_made_and_no_endpoint_counted_any() -> None:
    spending = Spending()
    none = {"calls": 0, "retries": 0, "failed": 0, "input_tokens": 0, "output_tokens": 0, "reasoning_tokens": 0} | REST
    assert written(spending) == list(none.items())
    spending.add(ASK, 2, Response("a"), failed=False)
    assert written(spending) == list(({"calls": 1, "retries": 1, "failed": 0} | REST).items())
    spending.add(ASK, 1, Response("b", usage=Usage(5, 0)), failed=False)
    assert written(spending) == list((none | {"calls": 2, "retries": 1, "input_tokens": 5}).items())


def test_counts_without_tokens_are_read_as_they_were_written() -> None:
    counts = Spending(calls=1).counts()
    assert msgspec.json.decode(msgspec.json.encode(counts), type=CallCounts) == counts
