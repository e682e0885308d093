"""The judge behind a run's scores on the screen, with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.cli.screen import block, tell
from assay.store.calibrations import shown
from assay.store.judges import JudgeIdentity, judges_in

_MOST_NAMED = 3


def say_judge(results: Mapping[str, Any]) -> None:
    """A line for each judge that these results name: who it is, what it decided, and how good it is."""
    for judge in judges_in(results):
        block(judge_line(judge), indent="")


def judge_line(judge: JudgeIdentity) -> str:
    """`judge offline (answer_correct): calibrated: kappa …`."""
    votes = f", {judge.votes} votes" if judge.votes > 1 else ""
    named = ", ".join(judge.metrics) if len(judge.metrics) <= _MOST_NAMED else f"{len(judge.metrics)} scores"
    metrics = f" ({named}{votes})" if judge.metrics else ""
    return f"judge {judge.name}{metrics}: {shown(judge.now(tell))}"
