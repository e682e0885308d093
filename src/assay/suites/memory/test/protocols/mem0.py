"""The evaluation of mem0's authors on LoCoMo: answers of a few words from dated notes, judged generously."""

from __future__ import annotations

from assay.scoring.judge_setup import JudgeSetup
from assay.suites.memory.answer_prompt import DATED, read_prompt
from assay.suites.memory.test.protocols import PROMPTS, Protocol
from assay.suites.memory.test.schedule import AT_END

PROTOCOL = Protocol(
    name="mem0",
    summary="answers of at most six words from 30 items, judged correct or wrong with generosity, category 5 left out",
    # The authors set no limit. This one leaves room for a model that thinks aloud first.
    answer_prompt=read_prompt(PROMPTS / "mem0.answer.v1.txt", {"temperature": 0, "max_tokens": 512}, layout=DATED),
    judge=JudgeSetup(prompt=PROMPTS / "mem0.judge.v1.txt"),
    top_k=30,
    ask=AT_END,
    skips_abstention=True,
)
