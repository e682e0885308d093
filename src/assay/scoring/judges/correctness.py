"""Judge `correctness`: labels written memories as true, made up, or not worth keeping."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from assay.scoring.judge_prompt import LabelEachPrompt, label_count, numbered
from assay.scoring.prompt_budget import CHARACTERS, batches, shortened
from assay.scoring.questions import IRRELEVANT, CorrectnessQuestion

VERSION = "correctness.v1"


class CorrectnessPrompt(LabelEachPrompt[CorrectnessQuestion]):
    """Labels each memory, given the points of its session and of earlier sessions."""

    # A later version of the format uses the label "error" for irrelevant memories.
    aliases: ClassVar[Mapping[str, str]] = {"error": IRRELEVANT}

    def split(self, question: CorrectnessQuestion) -> list[CorrectnessQuestion]:
        """Split the memories into batches. Each prompt gets the points that are most similar to its batch."""
        return [replace(question, texts=question.texts[batch]) for batch in batches(question.texts)]

    def _values(self, question: CorrectnessQuestion) -> dict[str, str]:
        points, chosen_points = self._nearest(question.points, question.texts, CHARACTERS // 2)
        earlier_points, chosen_known = self._nearest(question.earlier_points, question.texts, CHARACTERS // 2)
        return {
            "points": points,
            "chosen_points": chosen_points,
            "known": earlier_points,
            "chosen_known": chosen_known,
            "memories": numbered([shortened(text) for text in question.texts]),
            **label_count(question),
        }


def build() -> CorrectnessPrompt:
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return CorrectnessPrompt(Path(__file__).with_name(f"{VERSION}.txt"))
