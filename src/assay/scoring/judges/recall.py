"""Which memory points are covered by what a session wrote."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.scoring.judge_prompt import LabelEachPrompt, label_count, numbered
from assay.scoring.prompt_budget import batches, shortened
from assay.scoring.questions import RecallQuestion

VERSION = "recall.v1"


class RecallPrompt(LabelEachPrompt[RecallQuestion]):
    """One label for each point; the prompt says which of them are updates."""

    def parts(self, question: RecallQuestion) -> list[RecallQuestion]:
        """Points in batches, each with the texts that are alike to its own."""
        return [
            replace(question, points=question.points[batch], updates=question.updates[batch])
            for batch in batches(question.points)
        ]

    def _values(self, question: RecallQuestion) -> dict[str, str]:
        points = [
            f"[{'update' if update else 'normal'}] {shortened(point)}"
            for point, update in zip(question.points, question.updates, strict=True)
        ]
        memories, chosen = self._nearest(question.texts, question.points)
        return {"points": numbered(points), "memories": memories, "chosen": chosen, **label_count(question)}


def build() -> RecallPrompt:
    """It has no options: everything that changes its verdicts is in the prompt file."""
    return RecallPrompt(Path(__file__).with_name(f"{VERSION}.txt"))
