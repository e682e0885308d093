"""The judge behind a run's scores on the screen, with what is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.cli.screen import block, tell
from assay.core.judges import JudgeInfo
from assay.store.calibrations import describe_calibration
from assay.store.judges import calibration_of, judges_in

_MOST_NAMED = 3


def say_judge(results: Mapping[str, Any]) -> None:
    """A line for each judge that these results name: who it is, what it decided, and how good it is."""
    for line in judge_lines(judges_in(results)):
        block(line, indent="")


def judge_lines(judges: Iterable[JudgeInfo]) -> list[str]:
    """`judge offline (answer): calibrated: kappa …`; what is known of several kinds alike is one line."""
    found: dict[tuple[str, int, str], list[str]] = {}
    for judge in judges:
        about = (judge.name, judge.votes, describe_calibration(calibration_of(judge, tell)))
        found.setdefault(about, []).extend(judge.metrics)
    return [_line(name, votes, known, metrics) for (name, votes, known), metrics in found.items()]


def _line(name: str, votes: int, known: str, metrics: list[str]) -> str:
    cast = f", {votes} votes" if votes > 1 else ""
    named = ", ".join(metrics) if len(metrics) <= _MOST_NAMED else f"{len(metrics)} scores"
    decided = f" ({named}{cast})" if metrics else ""
    return f"judge {name}{decided}: {known}"
