"""The evaluation of LongMemEval's authors: answers in two steps from chats in order of time, judged by type."""

from __future__ import annotations

from assay.scoring.judge_setup import JudgeSetup
from assay.suites.memory.answer_prompt import SESSIONS, read_prompt
from assay.suites.memory.test.protocols import PROMPTS, Protocol
from assay.suites.memory.test.schedule import AT_END
from assay.suites.memory.test.scorers import JudgeRules

_RULE = (
    "Say yes if the response contains the reference answer, says the same in other words, or has every step from which "
    "it follows. Say no if it has only a part of what the reference has."
)
_OFF_BY_ONE = "A number of days, weeks or months that is off by one is still right: 19 days for a reference of 18."
_UPDATE = (
    "The reference is the newest state. Say yes if the response gives it as the answer, even if it mentions an earlier "
    "state beside it."
)
_PREFERENCE = (
    "The reference describes what a reply that suits this user is like. Say yes if the response remembers what the "
    "user told about themselves and uses it rightly. It need not meet every point of the reference."
)
_ABSTENTION = (
    "The chats do not contain what the question asks for; the reference says why. Say yes if the response notices "
    "this: it says that the information is missing or incomplete, or that something else is known, but not this."
)

PROTOCOL = Protocol(
    name="longmemeval",
    summary="answers in two steps from 50 items by date, judged yes or no by the rule of the question's type",
    answer_prompt=read_prompt(
        PROMPTS / "longmemeval.answer.v1.txt", {"temperature": 0, "max_tokens": 800}, layout=SESSIONS
    ),
    judge=JudgeSetup(prompt=PROMPTS / "longmemeval.judge.v1.txt"),
    rules=JudgeRules(
        rule=_RULE,
        by_category={
            "temporal-reasoning": f"{_RULE} {_OFF_BY_ONE}",
            "knowledge-update": _UPDATE,
            "single-session-preference": _PREFERENCE,
        },
        abstention=_ABSTENTION,
    ),
    # The default of the authors' script.
    top_k=50,
    ask=AT_END,
)
