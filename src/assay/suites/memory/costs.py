"""Tables about all memories of a run: score against cost, and the spread of repeated buildings.

report.tables = memory_tables(memory_costs(report, "f1", groups, by_purpose))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from msgspec import Struct

from assay.core.no_answer import is_measured
from assay.core.report import Cell, Metric, Report, Table
from assay.core.usage import ANSWER, BUILD, RETRIEVE
from assay.scoring.purpose_table import PurposeNumbers


class MemoryCost(Struct, frozen=True, kw_only=True):
    """One memory of a run: its headline score and its cost by purpose. Repeats of a memory share `group`."""

    title: str
    group: str
    score: Metric | None
    by_purpose: dict[str, PurposeNumbers]
    reference: bool = False

    @property
    def tokens(self) -> int | None:
        """All tokens of building, searching and answering; None if no endpoint reported any."""
        counts = [
            (numbers.input_tokens or 0) + (numbers.output_tokens or 0)
            for purpose, numbers in self.by_purpose.items()
            if purpose in (BUILD, RETRIEVE, ANSWER) and numbers.input_tokens is not None
        ]
        return sum(counts) if counts else None

    @property
    def context_tokens(self) -> float | None:
        """Mean tokens of the prompt of an answer: the question, the instructions and what the memory found."""
        numbers = self.by_purpose.get(ANSWER)
        if numbers is None or numbers.input_tokens is None or numbers.calls == numbers.failed:
            return None
        return numbers.input_tokens / (numbers.calls - numbers.failed)

    @property
    def cost(self) -> float | None:
        """The price of building, searching and answering, in US dollars. None if no call has a price."""
        prices = [
            numbers.cost
            for purpose, numbers in self.by_purpose.items()
            if purpose in (BUILD, RETRIEVE, ANSWER) and numbers.cost is not None
        ]
        return sum(prices) if any(prices) else None


def memory_costs(
    report: Report,
    headline: str | None,
    groups: Mapping[str, str],
    by_purpose: Mapping[str, dict[str, PurposeNumbers]],
) -> list[MemoryCost]:
    """Return the memories of a report. `groups` and `by_purpose` are by the name of the entry.

    A memory without any answer has no score: the metric would be 0, see `core/no_answer.py`.
    """
    costs = []
    for entry in report.entries:
        measured = headline is not None and is_measured(report, entry.set, entry.subject, headline)
        costs.append(
            MemoryCost(
                title=entry.title,
                group=groups.get(entry.name, entry.name),
                score=entry.metric(headline) if headline is not None and measured else None,
                by_purpose=by_purpose.get(entry.name, {}),
                reference=entry.reference,
            )
        )
    return costs


def memory_tables(memories: Sequence[MemoryCost]) -> list[Table]:
    """Return the table of score against cost, and that of repeats. A run of one memory has neither."""
    return [*_cost_table(memories), *_repeat_table(memories)]


def _cost_table(memories: Sequence[MemoryCost]) -> list[Table]:
    if len(memories) < 2:
        return []
    score = next((each.score.title for each in memories if each.score is not None), "score")
    columns = [
        "memory",
        score,
        "context tokens",
        "build tokens",
        "tokens",
        "cost $",
        "build s",
        "search p50 ms",
    ]
    rows: list[list[Cell]] = []
    for each in memories:
        build, retrieve = each.by_purpose.get(BUILD, PurposeNumbers()), each.by_purpose.get(RETRIEVE, PurposeNumbers())
        build_tokens = None
        if build.input_tokens is not None:
            build_tokens = build.input_tokens + (build.output_tokens or 0)
        context = each.context_tokens
        rows.append(
            [
                each.title,
                each.score,
                None if context is None else round(context),
                build_tokens,
                each.tokens,
                each.cost,
                build.seconds,
                None if retrieve.seconds_p50 is None else retrieve.seconds_p50 * 1000,
            ]
        )
    kept = [0, 1, *(n for n in range(2, len(columns)) if any(row[n] is not None for row in rows))]
    table = Table(
        name="costs",
        title="score against cost",
        columns=[columns[n] for n in kept],
        rows=[[row[n] for n in kept] for row in rows],
        note=_best(memories),
    )
    return [table]


def _best(memories: Sequence[MemoryCost]) -> str:
    """Return the memories that no other memory beats in both score and cost. Tokens stand for an unknown cost."""
    real = [each for each in memories if not each.reference]
    by_cost = all(each.cost is not None for each in real)
    points = [
        (each.title, each.score.value, each.cost if by_cost else each.tokens)
        for each in real
        if each.score is not None and each.score.value is not None
    ]
    if len(points) < 2 or any(price is None for _, _, price in points):
        return ""
    best = [
        title
        for title, value, price in points
        if not any(
            (other >= value and cheaper <= price and (other, cheaper) != (value, price))  # type: ignore[operator]
            for _, other, cheaper in points
        )
    ]
    less = "a lower cost" if by_cost else "fewer tokens"
    return f"No other memory has at least the score for {less}: {', '.join(best)}."


def _repeat_table(memories: Sequence[MemoryCost]) -> list[Table]:
    groups: dict[str, list[MemoryCost]] = {}
    for each in memories:
        groups.setdefault(each.group, []).append(each)
    rows: list[list[Cell]] = []
    for group, repeats in groups.items():
        values = [each.score.value for each in repeats if each.score and each.score.value is not None]
        if len(repeats) < 2:
            continue
        if not values:
            rows.append([group, len(repeats), None, None, None, None])
            continue
        spread = stdev(values) if len(values) > 1 else None
        rows.append([group, len(values), fmean(values), spread, min(values), max(values)])
    if not rows:
        return []
    score = next((each.score.title for each in memories if each.score is not None), "score")
    columns = ["memory", "repeats", f"mean {score}", "standard deviation", "lowest", "highest"]
    return [Table(name="repeats", title="repeats of the building", columns=columns, rows=rows)]
