"""`offline`: a deterministic judge by words, numbers and dates. It asks nobody, and says why."""

from __future__ import annotations

from assay.scoring.answers import abstains, tokens
from assay.scoring.judging.matters import (
    BOTH,
    CORRECT,
    COVERED,
    HALLUCINATION,
    IRRELEVANT,
    MEMORIZED,
    MISSED,
    OMISSION,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
    Answered,
    Changed,
    Cited,
    Interfering,
    Kept,
    Matter,
    Verdict,
    Written,
)

FINGERPRINT = "offline.v0"
_ENOUGH = 0.6


def verdict(matter: Matter) -> Verdict:
    """The label of each thing, with the measure behind it."""
    if isinstance(matter, Answered):
        return _answer(matter)
    if isinstance(matter, Cited):
        return _covered(matter.evidence, matter.texts)
    if isinstance(matter, Kept):
        return _covered(matter.points, matter.texts)
    if isinstance(matter, Written):
        shares = tuple(_best(text, (*matter.points, *matter.known)) for text in matter.texts)
        return Verdict(tuple(TRUE if share >= _ENOUGH else IRRELEVANT for share in shares), sure=shares)
    if isinstance(matter, Changed):
        new = _best(matter.new, matter.texts) >= _ENOUGH
        old = any(_best(one, matter.texts) >= _ENOUGH for one in matter.old)
        return Verdict((BOTH if new and old else UPDATED if new else OUTDATED,))
    assert isinstance(matter, Interfering)
    share = _best(matter.content, matter.texts)
    return Verdict((MEMORIZED if share >= _ENOUGH else REJECTED,), sure=(1 - share,))


def _answer(matter: Answered) -> Verdict:
    if not matter.response.strip():
        return Verdict((OMISSION,), "nothing was answered", sure=(0.0,))
    share = _best(matter.reference, (matter.response,))
    wrong = OMISSION if abstains(matter.response) else HALLUCINATION
    label = CORRECT if share >= _ENOUGH else wrong
    return Verdict((label,), f"{share:.0%} of the reference's words", sure=(share,))


def _covered(points: tuple[str, ...], texts: tuple[str, ...]) -> Verdict:
    shares = tuple(_best(point, texts) for point in points)
    labels = tuple(COVERED if share >= _ENOUGH else MISSED for share in shares)
    return Verdict(labels, f"{labels.count(COVERED)} of {len(points)} covered", sure=shares)


def _best(point: str, texts: tuple[str, ...]) -> float:
    wanted = set(tokens(point))
    shares = [len(wanted & set(tokens(text))) / len(wanted) for text in texts] if wanted else []
    return max(shares, default=0.0)
