"""Judge `answer`: labels an answer as correct, as a hallucination or as an omission."""

from __future__ import annotations

from pathlib import Path

from assay.scoring.judge_prompt import OneLabelPrompt
from assay.scoring.prompt_budget import shortened
from assay.scoring.questions import AnswerQuestion

VERSION = "answer.v1"


class AnswerPrompt(OneLabelPrompt[AnswerQuestion]):
    """An answer that both makes something up and leaves something out is a hallucination."""

    def _values(self, question: AnswerQuestion) -> dict[str, str]:
        evidence, chosen = self._nearest(question.evidence, (question.question, question.reference))
        return {
            "question": shortened(question.question),
            "reference": shortened(question.reference),
            "response": shortened(question.response),
            "evidence": evidence,
            "chosen": chosen,
            "rule": question.rule,
        }


def build() -> AnswerPrompt:
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return AnswerPrompt(Path(__file__).with_name(f"{VERSION}.txt"))
