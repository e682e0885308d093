"""The judges behind a run's scores, as its results name them, and whether they may decide an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint as fingerprint_of
from assay.scoring.judging.panel import Panel, content_of
from assay.store.calibrations import ANSWER, RUBRIC, Calibration, Tell, kappa_of, known


class JudgeIdentity(Struct, frozen=True, kw_only=True):
    """A judge as results name it. `fingerprint` is that of its prompt for this kind of matter."""

    name: str
    id: str
    votes: int
    kind: str
    fingerprint: str
    metrics: Sequence[str]
    """Names of the scores that it decides."""
    calibration: Calibration | None = None
    """As it was known when the run ended, or when that was looked up again."""

    def now(self, tell: Tell | None = None) -> Calibration | None:
        """As it is known now, else as it was then."""
        return known(self.name, self.fingerprint, self.kind, tell) or self.calibration

    @property
    def advice(self) -> str:
        """How it is calibrated as it is asked here, with its votes; there is no way yet for most kinds."""
        if self.kind not in (ANSWER, RUBRIC):
            return f"what judges say of {self.kind} cannot be calibrated yet"
        votes = f" --votes {self.votes}" if self.votes > 1 else ""
        return f"`assay judge calibrate --judge {self.name}{votes} --labels FILE` measures it"

    def today(self) -> JudgeIdentity:
        """The same judge with what is known of it now."""
        return msgspec.structs.replace(self, calibration=self.now())


def rubric_judge(judge: str, fingerprint: str, metrics: Sequence[str]) -> JudgeIdentity:
    """The judge of rubrics, which is asked once; the fingerprint is that of its prompt.

    A judge that is a file of the user is known by its content too: when it is edited, it is another judge.
    """
    if content := content_of(judge):
        fingerprint = fingerprint_of([fingerprint, content])
    return JudgeIdentity(
        name=judge,
        id=f"{judge}@{fingerprint_of([judge, fingerprint])}",
        votes=1,
        kind=RUBRIC,
        fingerprint=fingerprint,
        metrics=metrics,
    )


def panel_judge(panel: Panel, metrics: Sequence[str], kind: str = ANSWER) -> JudgeIdentity:
    """The judge of a run, as it is asked about matters of one kind."""
    return JudgeIdentity(
        name=panel.name,
        id=panel.id,
        votes=panel.votes,
        kind=kind,
        fingerprint=panel.fingerprint(kind),
        metrics=metrics,
    )


def about_judge(panel: Panel, metrics: Sequence[str], kind: str = ANSWER) -> dict[str, Any]:
    """`{"judge": …}` for a subject's results: the judge behind these metrics, and what is known of it."""
    return about(panel_judge(panel, metrics, kind))


def about_judges(panel: Panel, metrics: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """`{"judge": …, "judges": […]}`: the judge of answers, and the same one for each other kind of matter.

    A calibration is of one kind: how good a judge is with answers says nothing of its other scores.
    """
    others = [panel_judge(panel, names, kind) for kind, names in metrics.items() if kind != ANSWER]
    return about_judge(panel, metrics[ANSWER]) | {"judges": [about(one)["judge"] for one in others]}


def about(identity: JudgeIdentity) -> dict[str, Any]:
    """`{"judge": …}`, with the calibration that is known now; as it will be read, lists and all."""
    return {"judge": msgspec.json.decode(msgspec.json.encode(identity.today()))}


def judges_in(results: Mapping[str, Any], subject: str | None = None) -> list[JudgeIdentity]:
    """The judges that a run's results name, each once: of one subject where the results are by subject."""
    own = results.get(subject) if subject is not None else None
    inside = list(results.values()) if own is None else [own]
    found: dict[tuple[str, str], JudgeIdentity] = {}
    for told in chain.from_iterable(map(_told, inside)):
        try:
            judge = msgspec.convert(told, JudgeIdentity)
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


def too_weak(judge: str, found: Calibration | None, floor: float) -> str:
    """Why this judge may not decide where its kappa must reach a floor; empty where it may."""
    if found is None:
        return f"the judge {judge} is not calibrated; a kappa of at least {floor:g} is wanted"
    kappa = found.overall.kappa
    if kappa is not None and kappa >= floor:
        return ""
    on = f"{found.overall.n:,} labels of {found.labels}"
    return f"the judge {judge} has {kappa_of(found.overall)} on {on}; at least {floor:g} is wanted"


def require(identity: JudgeIdentity, floor: float) -> None:
    """Refuse a judge that is not known to be good enough to decide an exit code."""
    notes: list[str] = []
    if why := too_weak(identity.name, identity.now(notes.append), floor):
        raise UsageError("\n".join([*notes, f"{why}; {identity.advice}"]))
