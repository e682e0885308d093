"""Judge `update`: labels whether memories contain the new state of a changed point, the old one, or both."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt, numbered
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import UpdateQuestion

VERSION = "update.v1"


class UpdatePrompt(OneLabelPrompt[UpdateQuestion]):
    """Labels the change, given all memories together."""

    def _values(self, question: UpdateQuestion) -> dict[str, str]:
        memories, chosen = self._nearest(question.texts, (question.new, *question.old))
        old = numbered([shortened(text) for text in question.old])
        return {"new": shortened(question.new), "old": old, "memories": memories, "chosen": chosen}


def build() -> UpdatePrompt:
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return UpdatePrompt(Path(__file__).with_name(f"{VERSION}.txt"))
