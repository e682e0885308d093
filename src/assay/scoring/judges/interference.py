"""Judge `interference`: labels whether memories contain a point that should not have been stored."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import InterferenceQuestion

VERSION = "interference.v1"


class InterferencePrompt(OneLabelPrompt[InterferenceQuestion]):
    """Labels the point, given all memories together."""

    def _values(self, question: InterferenceQuestion) -> dict[str, str]:
        memories, chosen = self._nearest(question.texts, (question.content,))
        return {"content": shortened(question.content), "memories": memories, "chosen": chosen}


def build() -> InterferencePrompt:
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return InterferencePrompt(Path(__file__).with_name(f"{VERSION}.txt"))
