"""What needs no judge, whoever judges."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from assay.core.protocols import Context
from assay.scoring.panel import Panel
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
def test_what_is_clear_is_not_asked(matter: JudgeQuestion, labels: tuple[str, ...]) -> None:
    """An empty answer and an empty memory."""
    found = trivial_verdict(matter)
    assert found
    assert found.labels == labels
    assert found.reason
    for name in ("offline", "openai/nobody"):
        assert asyncio.run(Panel(name).verdict(matter, cast("Context", None))) == found


def test_what_has_to_be_looked_at() -> None:
    """One example of each kind; of written memories that are none there is nothing to say."""
    assert all(trivial_verdict(example) is None for example in EXAMPLES.values())
    assert trivial_verdict(CorrectnessQuestion(("a",), (), ())) == Verdict()
    assert trivial_verdict(CorrectnessQuestion((), (), (" ",))) is None
