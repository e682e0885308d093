"""Judge `evidence`: labels which pieces of evidence are covered by texts, such as those that an answer cites."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from assay.scoring.judge_prompt import LabelEachPrompt, label_count, numbered
from assay.scoring.prompt_budget import batches, shortened
from assay.scoring.questions import EvidenceQuestion

VERSION = "evidence.v1"


class EvidencePrompt(LabelEachPrompt[EvidenceQuestion]):
    """Labels each piece of evidence."""

    def split(self, question: EvidenceQuestion) -> list[EvidenceQuestion]:
        """Split the evidence into batches. Each prompt gets the texts that are most similar to its batch."""
        return [replace(question, evidence=question.evidence[batch]) for batch in batches(question.evidence)]

    def _values(self, question: EvidenceQuestion) -> dict[str, str]:
        evidence = numbered([shortened(piece) for piece in question.evidence])
        texts, chosen = self._nearest(question.texts, question.evidence)
        return {"evidence": evidence, "texts": texts, "chosen": chosen, **label_count(question)}


def build() -> EvidencePrompt:
    """Return the judge. It has no options: only the prompt file determines its verdicts."""
    return EvidencePrompt(Path(__file__).with_name(f"{VERSION}.txt"))
