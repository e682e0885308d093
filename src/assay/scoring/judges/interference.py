"""Whether memories hold a point that should not have been kept."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import InterferenceQuestion

VERSION = "interference.v1"


class InterferencePrompt(OneLabelPrompt[InterferenceQuestion]):
    """Looks at all memories together."""

    def _values(self, question: InterferenceQuestion) -> dict[str, str]:
        memories, chosen = self._nearest(question.texts, (question.content,))
        return {"content": shortened(question.content), "memories": memories, "chosen": chosen}


def build() -> InterferencePrompt:
    """It has no options: everything that changes its verdicts is in the prompt file."""
    return InterferencePrompt(Path(__file__).with_name(f"{VERSION}.txt"))
