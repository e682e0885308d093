"""Whether memories hold the new state of a point that changed, the old one, or both."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judging.fitting import shortened
from assay.scoring.judging.matters import Changed
from assay.scoring.judging.wording import OneLabel, listed

VERSION = "update.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class UpdateJudge(OneLabel[Changed]):
    """Looks at all memories together."""

    def _values(self, matter: Changed) -> dict[str, str]:
        memories, chosen = self._near(matter.texts, (matter.new, *matter.old))
        old = listed([shortened(text) for text in matter.old])
        return {"new": shortened(matter.new), "old": old, "memories": memories, "chosen": chosen}


def build() -> UpdateJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return UpdateJudge(Path(__file__).with_name(f"{VERSION}.txt"))
