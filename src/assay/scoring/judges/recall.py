"""Judge `recall`: labels which memory points are covered by the memories of a session."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.scoring.judge_prompt import LabelEachPrompt, label_count, numbered
from assay.scoring.prompt_budget import batches, shortened
from assay.scoring.questions import RecallQuestion

VERSION = "recall.v1"


class RecallPrompt(LabelEachPrompt[RecallQuestion]):
    """Labels each point. The prompt marks points that are updates."""

    def split(self, question: RecallQuestion) -> list[RecallQuestion]:
        """Split the points into batches. Each prompt gets the texts that are most similar to its batch."""
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
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return RecallPrompt(Path(__file__).with_name(f"{VERSION}.txt"))
