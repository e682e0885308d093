"""Whether memories hold the new state of a point that changed, the old one, or both."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt, numbered
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import UpdateQuestion

VERSION = "update.v1"


class UpdatePrompt(OneLabelPrompt[UpdateQuestion]):
    """Looks at all memories together."""

    def _values(self, question: UpdateQuestion) -> dict[str, str]:
        memories, chosen = self._nearest(question.texts, (question.new, *question.old))
        old = numbered([shortened(text) for text in question.old])
        return {"new": shortened(question.new), "old": old, "memories": memories, "chosen": chosen}


def build() -> UpdatePrompt:
    """It has no options: everything that changes its verdicts is in the prompt file."""
    return UpdatePrompt(Path(__file__).with_name(f"{VERSION}.txt"))
