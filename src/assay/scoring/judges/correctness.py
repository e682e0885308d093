"""Whether memories that were written are true, made up, or not worth keeping."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from assay.scoring.judging.fitting import CHARACTERS, batches, shortened
from assay.scoring.judging.matters import IRRELEVANT, Written
from assay.scoring.judging.wording import LabelEach, counted, listed

VERSION = "correctness.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class CorrectnessJudge(LabelEach[Written]):
    """One label for each memory, by the points of its session and of earlier ones."""

    aliases: ClassVar[Mapping[str, str]] = {"error": IRRELEVANT}
    """What a later version of the format calls it."""

    def parts(self, matter: Written) -> list[Written]:
        """Memories in batches, each with the points that are alike to its own."""
        return [replace(matter, texts=matter.texts[some]) for some in batches(matter.texts)]

    def _values(self, matter: Written) -> dict[str, str]:
        points, chosen_points = self._near(matter.points, matter.texts, CHARACTERS // 2)
        known, chosen_known = self._near(matter.known, matter.texts, CHARACTERS // 2)
        return {
            "points": points,
            "chosen_points": chosen_points,
            "known": known,
            "chosen_known": chosen_known,
            "memories": listed([shortened(text) for text in matter.texts]),
            **counted(matter),
        }


def build() -> CorrectnessJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return CorrectnessJudge(Path(__file__).with_name(f"{VERSION}.txt"))
