"""The evaluation of LoCoMo's authors with retrieval: short answers from dated lines, compared by their words."""

from __future__ import annotations

from assay.suites.memory.answer_prompt import DATED, read_prompt
from assay.suites.memory.test.protocols import PROMPTS, Protocol
from assay.suites.memory.test.schedule import AT_END

PROTOCOL = Protocol(
    name="locomo",
    summary="short answers from 5 items, token F1 by LoCoMo's rules, category 5 apart",
    answer_prompt=read_prompt(PROMPTS / "locomo.answer.v1.txt", {"temperature": 0, "max_tokens": 32}, layout=DATED),
    # The default of the authors' script.
    top_k=5,
    ask=AT_END,
    abstention_phrases=True,
)
