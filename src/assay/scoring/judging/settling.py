"""What needs no judge, whoever judges: nothing to be judged, nothing that was said, nothing that is held."""

from __future__ import annotations

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
)

_HELD_BY_NOTHING = {Kept: MISSED, Cited: MISSED, Changed: OUTDATED, Interfering: REJECTED}


def settled(matter: Matter) -> Verdict | None:
    """The verdict where everybody would give it; None where somebody has to look.

    Who says nothing leaves everything out: a model that is asked about an empty answer might find it correct.
    """
    if not matter.count:
        return Verdict()
    if isinstance(matter, Answered):
        return None if matter.response.strip() else Verdict((OMISSION,), "nothing was answered")
    label = _HELD_BY_NOTHING.get(type(matter))
    if label is None or any(text.strip() for text in matter.texts):
        return None
    return Verdict((label,) * matter.count, "there is no text to look at")
