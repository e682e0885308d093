"""The judges behind a run's scores: how reports name them, and whether they may decide an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint as fingerprint_of
from assay.core.judges import ANSWER, RUBRIC, Calibration, JudgeInfo
from assay.scoring.panel import Panel, judge_file_hash
from assay.store.calibrations import Tell, describe_kappa, find_calibration


def calibration_of(judge: JudgeInfo, tell: Tell | None = None) -> Calibration | None:
    """The calibration that is known now, else the one that the report names."""
    return find_calibration(judge.name, judge.fingerprint, judge.kind, tell) or judge.calibration


def with_calibration(judge: JudgeInfo) -> JudgeInfo:
    """The same judge with the calibration that is known now."""
    return msgspec.structs.replace(judge, calibration=calibration_of(judge))


def rubric_judge(judge: str, fingerprint: str, metrics: Sequence[str]) -> JudgeInfo:
    """The judge of rubrics, which is asked once; the fingerprint is that of its prompt.

    A judge that is a file of the user is known by its content too: when it is edited, it is another judge.
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


def panel_judge(panel: Panel, metrics: Sequence[str], kind: str = ANSWER) -> JudgeInfo:
    """The judge of a run, as it is asked questions of one kind."""
    return JudgeInfo(
        name=panel.name,
        id=panel.id,
        votes=panel.votes,
        kind=kind,
        fingerprint=panel.fingerprint(kind),
        metrics=metrics,
    )


def about(identity: JudgeInfo) -> dict[str, Any]:
    """`{"judge": …}`, with the calibration that is known now; as it will be read, lists and all."""
    return {"judge": msgspec.json.decode(msgspec.json.encode(with_calibration(identity)))}


def judges_in(results: Mapping[str, Any], subject: str | None = None) -> list[JudgeInfo]:
    """The judges that a run's results name, each once: of one subject where the results are by subject."""
    own = results.get(subject) if subject is not None else None
    inside = list(results.values()) if own is None else [own]
    found: dict[tuple[str, str], JudgeInfo] = {}
    for told in chain.from_iterable(map(_told, inside)):
        try:
            judge = msgspec.convert(told, JudgeInfo)
        except msgspec.ValidationError:
            continue
        before = found.get((judge.id, judge.kind))
        metrics = dict.fromkeys([*(before.metrics if before else ()), *judge.metrics])
        found[judge.id, judge.kind] = msgspec.structs.replace(judge, metrics=list(metrics))
    return list(found.values())


def _told(result: Any) -> list[Any]:
    """What a result says of judges: one, and perhaps more."""
    if not isinstance(result, Mapping):
        return []
    more = result.get("judges")
    return [result.get("judge"), *(more if isinstance(more, Sequence) else ())]


def why_too_weak(judge: str, calibration: Calibration | None, floor: float) -> str:
    """Why this judge may not decide where its kappa must reach a floor; empty where it may."""
    if calibration is None:
        return f"the judge {judge} is not calibrated; a kappa of at least {floor:g} is wanted"
    overall = calibration.overall
    if overall.kappa is not None and overall.kappa >= floor:
        return ""
    labels = f"{overall.n:,} labels of {calibration.labels}"
    return f"the judge {judge} has {describe_kappa(overall)} on {labels}; at least {floor:g} is wanted"


def require_kappa(judge: JudgeInfo, floor: float) -> None:
    """Refuse a judge that is not known to be good enough to decide an exit code."""
    notes: list[str] = []
    if reason := why_too_weak(judge.name, calibration_of(judge, notes.append), floor):
        raise UsageError("\n".join([*notes, f"{reason}; {judge.advice}"]))
