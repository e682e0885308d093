"""Stages of memories and their costs: not measured is a dash, and tables keep their numbers."""

from __future__ import annotations

from assay.core.report import Entry, Metric, Report
from assay.core.types import Call, Failure, Response, Usage
from assay.core.usage import PurposeUsage, add_usage
from assay.scoring.purpose_table import PurposeNumbers, purpose_numbers, purpose_numbers_of, purpose_tables
from assay.suites.memory.costs import memory_costs, memory_tables


def call(response: Response | None, *, attempts: int = 1, failure: Failure | None = None) -> Call:
    return Call(0, "k", "s", "m", "ask", 1, "h", 0, None, response, failure, attempts, 0.5)


def test_calls_are_counted_with_what_is_not_known_of_them() -> None:
    usage = PurposeUsage()
    usage.add_call(call(Response("a", usage=Usage(7, 2), cost=0.25, address="http://x")))
    usage.add_call(call(Response("b", address="http://x"), attempts=0))
    usage.add_call(call(None, failure=Failure("timeout", "no")))
    assert usage == PurposeUsage(
        calls=3,
        reused=1,
        failed=1,
        uncounted=1,
        input_tokens=7,
        output_tokens=2,
        unpriced=1,
        cost=0.25,
        seconds=1.5,
    )
    total: dict[str, PurposeUsage] = {}
    add_usage(total, {"build": usage})
    add_usage(total, {"build": usage})
    assert (total["build"].calls, total["build"].cost, usage.calls) == (6, 0.5, 3)


def test_what_no_endpoint_reported_is_not_zero() -> None:
    silent = PurposeUsage()
    silent.add_call(call(Response("b", address="http://x")))
    assert (silent.tokens, silent.price) == ((None, None), None)
    free = PurposeUsage()
    free.add_call(call(Response("b", usage=Usage(1, 1))))
    assert free.price == 0.0  # a model in this process


def test_a_table_of_purposes_can_be_read_back() -> None:
    usage = {"build": PurposeUsage(calls=2, reused=1, input_tokens=10, output_tokens=4, cost=0.5, seconds=3.0)}
    numbers = purpose_numbers(usage, {"build": [1.0, 2.0], "retrieve": [0.25]})
    (table,) = purpose_tables(numbers)
    assert table.columns == [
        *("stage", "operations", "calls", "reused", "tokens in", "tokens out", "cost $", "seconds"),
        *("p50 ms", "p95 ms"),
    ]
    assert purpose_numbers_of(table) == numbers
    assert table.note == "Replies taken from another run or another memory: 1. Their tokens and cost were paid there."
    assert purpose_tables({}) == []


def report(*values: float | None) -> Report:
    entries = []
    for number, value in enumerate(values):
        metric = Metric(name="f1", label="token F1", value=value, denominator=4)
        entries.append(Entry(name=f"m{number}", subject=f"m{number}", metrics=[metric]))
    return Report(entries=entries, entry_word="memory")


def test_score_against_cost_names_the_memories_that_no_other_beats() -> None:
    """The second has the score of the first for more tokens; the third is better and dearer."""
    by_purpose = {
        f"m{number}": {"answer": PurposeNumbers(operations=4, calls=5, failed=1, input_tokens=tokens, output_tokens=0)}
        for number, tokens in enumerate((400, 800, 1200))
    }
    costs = memory_costs(report(0.5, 0.5, 0.75), "f1", {}, by_purpose)
    (table,) = memory_tables(costs)
    assert table.columns == ["memory", "token F1", "context tokens", "tokens"]
    assert [row[2:] for row in table.rows] == [[100, 400], [200, 800], [300, 1200]]
    assert table.note == "No other memory has at least the score for fewer tokens: m0, m2."


def test_repeats_show_their_spread() -> None:
    groups = {"m0": "m", "m1": "m", "m2": "other"}
    tables = memory_tables(memory_costs(report(0.5, 0.7, 0.1), "f1", groups, {}))
    repeats = tables[-1]
    assert [round(cell, 3) if isinstance(cell, float) else cell for cell in repeats.rows[0]] == [
        *("m", 2, 0.6),
        *(0.141, 0.5, 0.7),
    ]
    assert len(repeats.rows) == 1


def test_one_memory_needs_no_table() -> None:
    assert memory_tables(memory_costs(report(0.5), "f1", {}, {})) == []
