"""Which memory points are covered by what a session wrote."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.scoring.judging.fitting import batches, shortened
from assay.scoring.judging.matters import Kept
from assay.scoring.judging.wording import LabelEach, counted, listed

VERSION = "recall.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class RecallJudge(LabelEach[Kept]):
    """One label for each point; the prompt says which of them are updates."""

    def parts(self, matter: Kept) -> list[Kept]:
        """Points in batches, each with the texts that are alike to its own."""
        return [
            replace(matter, points=matter.points[some], updates=matter.updates[some])
            for some in batches(matter.points)
        ]

    def _values(self, matter: Kept) -> dict[str, str]:
        points = [
            f"[{'update' if update else 'normal'}] {shortened(point)}"
            for point, update in zip(matter.points, matter.updates, strict=True)
        ]
        memories, chosen = self._near(matter.texts, matter.points)
        return {"points": listed(points), "memories": memories, "chosen": chosen, **counted(matter)}


def build() -> RecallJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return RecallJudge(Path(__file__).with_name(f"{VERSION}.txt"))
