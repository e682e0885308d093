"""Asks the judge about each row. What the labels say is no part of a score: they are compared at the end."""

from __future__ import annotations

from assay.core.protocols import Context, Scorer, Solver, View
from assay.core.types import Score
from assay.suites.calibration.bench import METRIC, Bench
from assay.suites.calibration.row import Row


class RowSolver(Solver):
    """Asks nothing: the answers are in the file."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """The row's answer is what the case gives."""
        ctx.emit("answer", inputs)


class CalibrationScorer(Scorer):
    """One score a row: 1 where the judge accepts it, 0 where it does not, invalid where it says neither.

    So an edited label changes the numbers, and no judge is asked again.
    """

    def __init__(self, scorer_id: str, bench: Bench) -> None:
        self.id = scorer_id
        self._bench = bench

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """The judge's word on the answer that was emitted."""
        row: Row = view.case.gold
        said = await self._bench.said(row, view.records[0].data, ctx)
        valid = said.accepted is not None
        data = {
            "id": row.place,
            "target": row.rubric or row.reference,
            "label": said.label,
            "sure": said.sure,
        }
        return [
            Score(
                *view.case.head,
                self.id,
                METRIC,
                status="scored" if valid else "invalid",
                value=float(said.accepted) if said.accepted is not None else None,
                reason=said.reason,
                data={key: value for key, value in data.items() if value not in ("", None)},
            )
        ]
