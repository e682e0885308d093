"""`offline`: a deterministic judge by words, numbers and dates. It asks nobody, and says why."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from assay.scoring import answers
from assay.scoring.judging.matters import (
    Answered,
    Changed,
    Cited,
    Interfering,
    Kept,
    Matter,
    Verdict,
    Written,
)
from assay.scoring.judging.offline.answer import answer
from assay.scoring.judging.offline.coverage import covered
from assay.scoring.judging.offline.points import changed, interfering, written

FINGERPRINT: str
"""`offline.v1@` and a hash of the judge's own code: a judge that was changed is another judge."""


def verdict(matter: Matter) -> Verdict:
    """The label of each thing, with the measure behind it and a reason in words."""
    if isinstance(matter, Answered):
        return answer(matter)
    if isinstance(matter, Cited):
        return covered(matter.evidence, matter.texts)
    if isinstance(matter, Kept):
        return covered(matter.points, matter.texts)
    if isinstance(matter, Written):
        return written(matter)
    if isinstance(matter, Changed):
        return changed(matter)
    assert isinstance(matter, Interfering)
    return interfering(matter)


def __getattr__(name: str) -> str:
    if name == "FINGERPRINT":
        return _fingerprint()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _fingerprint() -> str:
    """Read when it is first asked for: a dozen small files."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(answers.__file__)]
    parts = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    return f"offline.v1@{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"
