"""Which pieces of evidence are covered by texts, such as those that an answer cites."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.scoring.judging.fitting import batches, shortened
from assay.scoring.judging.matters import Cited
from assay.scoring.judging.wording import LabelEach, counted, listed

VERSION = "evidence.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class EvidenceJudge(LabelEach[Cited]):
    """One label for each piece of evidence."""

    def parts(self, matter: Cited) -> list[Cited]:
        """Evidence in batches, each with the texts that are alike to its own."""
        return [replace(matter, evidence=matter.evidence[some]) for some in batches(matter.evidence)]

    def _values(self, matter: Cited) -> dict[str, str]:
        evidence = listed([shortened(piece) for piece in matter.evidence])
        texts, chosen = self._near(matter.texts, matter.evidence)
        return {"evidence": evidence, "texts": texts, "chosen": chosen, **counted(matter)}


def build() -> EvidenceJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return EvidenceJudge(Path(__file__).with_name(f"{VERSION}.txt"))
