"""How far the judges of one run agree with each other.

A run that was scored again with another judge keeps the scores of both in its journal. `judge_pairs` compares them
answer by answer, with the numbers of `assay judge calibrate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

from assay.core.judges import Agreement
from assay.journal.columns import SCORED
from assay.scoring.agreement import JudgedRow, agreement
from assay.store.open_run import OpenRun

if TYPE_CHECKING:
    from assay.journal.columns import RunColumns

MAX_ANSWERS = 50_000
"""Answers of each judge that are compared, the first ones of the data. More would take seconds."""
# Cases whose calls are read to find the model behind a judge.
_MAX_LOOKS = 20

AnswerIndex = tuple[int, str, int]
"""Case, metric, and digest of the part."""


class JudgePair(Struct, frozen=True, kw_only=True):
    """Two judges of the same answers. In `agreement`, the verdicts of the first one stand in the place of labels."""

    first: str
    second: str
    metric: str
    agreement: Agreement


def judge_pairs(run: OpenRun) -> list[JudgePair]:
    """Return the agreement of every two judges that decided the same metric of a run."""
    columns = run.table().columns
    judges: dict[str, list[str]] = {}
    for scorer in columns.stages:
        name, at, _ = scorer.partition("@")
        if at:
            judges.setdefault(name, []).append(scorer)
    pairs: list[JudgePair] = []
    for scorers in judges.values():
        if len(scorers) < 2:
            continue
        verdicts = {scorer: dict(_verdicts(columns, scorer)) for scorer in scorers}
        for first, second in combinations(scorers, 2):
            pairs += _compare(run, first, second, verdicts[first], verdicts[second])
    return pairs


def _compare(
    run: OpenRun, first: str, second: str, a: dict[AnswerIndex, bool], b: dict[AnswerIndex, bool]
) -> Iterator[JudgePair]:
    for metric in sorted({metric for _, metric, _ in a.keys() & b.keys()}):
        keys = sorted(key for key in a.keys() & b.keys() if key[1] == metric)
        rows = (JudgedRow(a[key], b[key], None, "", str(key[0])) for key in keys)
        yield JudgePair(
            first=_judge_name(run, first),
            second=_judge_name(run, second),
            metric=metric,
            agreement=agreement(rows),
        )


def _verdicts(columns: RunColumns, scorer: str) -> Iterator[tuple[AnswerIndex, bool]]:
    """Yield the scores of a scorer that are right or wrong, and nothing between."""
    arrays = columns.scores([scorer])
    names = [each.metric for each in columns.score_names.names]
    counts = (arrays.state == SCORED) & ~arrays.interim & ((arrays.value == 0) | (arrays.value == 1))
    chosen = (arrays.case, arrays.name, arrays.part, arrays.value)
    columns_of = [column[counts][:MAX_ANSWERS].tolist() for column in chosen]
    for case, name, part, value in zip(*columns_of, strict=True):
        yield (case, names[name], part), bool(value)


def _judge_name(run: OpenRun, scorer: str) -> str:
    """Return the model that a scorer asked, with its id. A judge such as `offline` asked none."""
    cases = run.cases()
    for position in cases.positions[:_MAX_LOOKS]:
        for call in cases.calls(position):
            if call.stage == scorer and call.request is not None:
                return f"{call.request.model} ({scorer})"
    return f"rules, no model ({scorer})"
