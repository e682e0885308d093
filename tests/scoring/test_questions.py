"""Verdicts that need no judge: empty answers and empty memories."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from assay.core.protocols import Context
from assay.scoring.judge import Judge
from assay.scoring.questions import (
    MISSED,
    OMISSION,
    OUTDATED,
    REJECTED,
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
    trivial_verdict,
)

from support.judge_questions import EXAMPLES


@pytest.mark.parametrize(
    ("matter", "labels"),
    [
        (AnswerQuestion("q", "unknown", " \n"), (OMISSION,)),
        (RecallQuestion(("a", "b"), (False, True), ()), (MISSED, MISSED)),
        (RecallQuestion(("a",), (False,), (" ",)), (MISSED,)),
        (EvidenceQuestion(("a", "b", "c"), ()), (MISSED,) * 3),
        (UpdateQuestion("new", ("old",), ()), (OUTDATED,)),
        (InterferenceQuestion("x", ("",)), (REJECTED,)),
    ],
)
def test_empty_answers_and_memories_need_no_judge(matter: JudgeQuestion, labels: tuple[str, ...]) -> None:
    """An empty answer and an empty memory."""
    found = trivial_verdict(matter)
    assert found
    assert found.labels == labels
    assert found.reason
    for name in ("offline", "openai/nobody"):
        assert asyncio.run(Judge(name).verdict(matter, cast("Context", None))) == found


def test_other_questions_need_a_judge() -> None:
    """Questions with texts need a judge. A correctness question without texts has an empty verdict."""
    assert all(trivial_verdict(example) is None for example in EXAMPLES.values())
    assert trivial_verdict(CorrectnessQuestion(("a",), (), ())) == Verdict()
    assert trivial_verdict(CorrectnessQuestion((), (), (" ",))) is None
