"""Whether an answer is correct, makes something up, or leaves something out."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judging.fitting import shortened
from assay.scoring.judging.matters import Answered
from assay.scoring.judging.wording import OneLabel

VERSION = "answer.v1"
"""The prompt stands beside this file. A new wording is a new version, and another judge."""


class AnswerJudge(OneLabel[Answered]):
    """To make something up wins over leaving something out."""

    def _values(self, matter: Answered) -> dict[str, str]:
        evidence, chosen = self._near(matter.evidence, (matter.question, matter.reference))
        return {
            "question": shortened(matter.question),
            "reference": shortened(matter.reference),
            "response": shortened(matter.response),
            "evidence": evidence,
            "chosen": chosen,
        }


def build() -> AnswerJudge:
    """It has no options: what changes its verdicts is in the prompt's file."""
    return AnswerJudge(Path(__file__).with_name(f"{VERSION}.txt"))
