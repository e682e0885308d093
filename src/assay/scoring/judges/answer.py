"""Whether an answer is correct, makes something up, or leaves something out."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import AnswerQuestion

VERSION = "answer.v1"


class AnswerPrompt(OneLabelPrompt[AnswerQuestion]):
    """To make something up wins over leaving something out."""

    def _values(self, question: AnswerQuestion) -> dict[str, str]:
        evidence, chosen = self._nearest(question.evidence, (question.question, question.reference))
        return {
            "question": shortened(question.question),
            "reference": shortened(question.reference),
            "response": shortened(question.response),
            "evidence": evidence,
            "chosen": chosen,
        }


def build() -> AnswerPrompt:
    """It has no options: everything that changes its verdicts is in the prompt file."""
    return AnswerPrompt(Path(__file__).with_name(f"{VERSION}.txt"))
