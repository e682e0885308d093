"""What needs no judge, whoever judges."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from assay.core.protocols import Context
from assay.scoring.judging.matters import (
    MISSED,
    OMISSION,
    OUTDATED,
    REJECTED,
    Answered,
    Changed,
    Cited,
    Interfering,
    Kept,
    Matter,
    Verdict,
    Written,
)
from assay.scoring.judging.panel import Panel
from assay.scoring.judging.settling import settled

from support.matters import EXAMPLES


@pytest.mark.parametrize(
    ("matter", "labels"),
    [
        (Answered("q", "unknown", " \n"), (OMISSION,)),
        (Kept(("a", "b"), (False, True), ()), (MISSED, MISSED)),
        (Kept(("a",), (False,), (" ",)), (MISSED,)),
        (Cited(("a", "b", "c"), ()), (MISSED,) * 3),
        (Changed("new", ("old",), ()), (OUTDATED,)),
        (Interfering("x", ("",)), (REJECTED,)),
    ],
)
def test_what_is_clear_is_not_asked(matter: Matter, labels: tuple[str, ...]) -> None:
    """An empty answer and an empty memory."""
    found = settled(matter)
    assert found
    assert found.labels == labels
    assert found.reason
    for name in ("offline", "openai/nobody"):
        assert asyncio.run(Panel(name).verdict(matter, cast("Context", None))) == found


def test_what_has_to_be_looked_at() -> None:
    """One example of each kind; of written memories that are none there is nothing to say."""
    assert all(settled(example) is None for example in EXAMPLES.values())
    assert settled(Written(("a",), (), ())) == Verdict()
    assert settled(Written((), (), (" ",))) is None
