"""Describes the judges of a run for its report, and checks whether a judge may decide an exit code."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint as fingerprint_of
from assay.core.judges import ANSWER, RUBRIC, Calibration, JudgeInfo
from assay.scoring.judge import Judge, judge_file_hash
from assay.store.calibrations import Warn, describe_kappa, describe_labels, find_calibration

_KIND_WORDS = {ANSWER: "answers", RUBRIC: "rubrics"}


def calibration_of(judge: JudgeInfo, warn: Warn | None = None) -> Calibration | None:
    """Return the calibration that is saved now, else the one in the run's report.

    A report from another machine may have a calibration that this machine lacks.
    """
    if judge.calibrated_here:
        return judge.calibration
    return find_calibration(judge.name, judge.fingerprint, judge.kind, warn) or judge.calibration


def with_calibration(judge: JudgeInfo) -> JudgeInfo:
    """Return the judge with its newest calibration."""
    return msgspec.structs.replace(judge, calibration=calibration_of(judge))


def rubric_judge_info(judge: str, fingerprint: str, metrics: Sequence[str]) -> JudgeInfo:
    """Describe a judge of rubrics. `fingerprint` is that of its prompt. Rubrics are judged with one call.

    If the judge is a user's file, the fingerprint includes its content: an edited file is another judge.
    """
    if content := judge_file_hash(judge):
        fingerprint = fingerprint_of([fingerprint, content])
    return JudgeInfo(
        name=judge,
        id=f"{judge}@{fingerprint_of([judge, fingerprint])}",
        votes=1,
        kind=RUBRIC,
        fingerprint=fingerprint,
        metrics=metrics,
    )


def judge_info(judge: Judge, metrics: Sequence[str], kind: str = ANSWER) -> JudgeInfo:
    """Describe the judge of a run for one kind of question. Each kind has its own prompt and calibration."""
    return JudgeInfo(
        name=judge.name,
        id=judge.id,
        votes=judge.votes,
        kind=kind,
        fingerprint=judge.fingerprint(kind),
        metrics=metrics,
        prompt_file=judge.prompt_file if kind == ANSWER else "",
    )


def kappa_problem(judge: JudgeInfo, calibration: Calibration | None, min_kappa: float) -> str:
    """Return why a judge does not meet --min-kappa, or "" if it does. The reason names the kind of question."""
    kind = _KIND_WORDS.get(judge.kind, judge.kind)
    if calibration is None:
        return (
            f"judge {judge.name} is not calibrated for {kind}, "
            f"but --min-kappa requires a kappa of at least {min_kappa:g}"
        )
    overall = calibration.overall
    if overall.kappa is not None and overall.kappa >= min_kappa:
        return ""
    return (
        f"judge {judge.name} has {describe_kappa(overall)} for {kind} on {describe_labels(calibration)}, "
        f"but --min-kappa requires at least {min_kappa:g}"
    )


def require_kappa(judges: Sequence[JudgeInfo], min_kappa: float) -> None:
    """Raise UsageError if a judge does not meet --min-kappa. The message names the command that calibrates it."""
    warnings: dict[str, None] = {}
    problems = [
        f"{problem}; {judge.advice}"
        for judge in judges
        if (problem := kappa_problem(judge, calibration_of(judge, warnings.setdefault), min_kappa))
    ]
    if problems:
        raise UsageError("\n".join([*warnings, *problems]))
