"""`offline`: a deterministic judge by words, numbers and dates. It asks nobody, and says why."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from assay.scoring import text_overlap
from assay.scoring.offline.answer import answer
from assay.scoring.offline.coverage import covered
from assay.scoring.offline.points import changed, interfering, written
from assay.scoring.questions import (
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
)

FINGERPRINT: str
"""`offline.v1@` and a hash of the judge's own code: a judge that was changed is another judge."""


def verdict(question: JudgeQuestion) -> Verdict:
    """The label of each thing, with the measure behind it and a reason in words."""
    if isinstance(question, AnswerQuestion):
        return answer(question)
    if isinstance(question, EvidenceQuestion):
        return covered(question.evidence, question.texts)
    if isinstance(question, RecallQuestion):
        return covered(question.points, question.texts)
    if isinstance(question, CorrectnessQuestion):
        return written(question)
    if isinstance(question, UpdateQuestion):
        return changed(question)
    assert isinstance(question, InterferenceQuestion)
    return interfering(question)


def __getattr__(name: str) -> str:
    if name == "FINGERPRINT":
        return _fingerprint()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _fingerprint() -> str:
    """Read when it is first asked for: a dozen small files."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(text_overlap.__file__)]
    parts = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    return f"offline.v1@{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"
