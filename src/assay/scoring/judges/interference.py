"""Whether memories hold a point that should not have been kept."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judging.fitting import shortened
from assay.scoring.judging.matters import Interfering
from assay.scoring.judging.wording import OneLabel

VERSION = "interference.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class InterferenceJudge(OneLabel[Interfering]):
    """Looks at all memories together."""

    def _values(self, matter: Interfering) -> dict[str, str]:
        memories, chosen = self._near(matter.texts, (matter.content,))
        return {"content": shortened(matter.content), "memories": memories, "chosen": chosen}


def build() -> InterferenceJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return InterferenceJudge(Path(__file__).with_name(f"{VERSION}.txt"))
