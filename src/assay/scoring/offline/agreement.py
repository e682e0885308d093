"""Whether a date that was said is the one that was meant: it overlaps it, and is not much vaguer."""

from __future__ import annotations

from assay.scoring.offline.spans import Span, apart, overlap

_MONTH = 28


def agree(said: Span, meant: Span) -> bool:
    """Overlap decides. Dates that hang on an anchor in the same way agree where their anchors do."""
    if said.relation and meant.relation and said.yearly == meant.yearly:
        if said.relation == meant.relation:
            return said.anchor == meant.anchor
        if said.anchor == meant.anchor:
            return overlap(said, meant)
    if vaguer(said, meant):
        return False
    slack = 1 if said.relation or meant.relation else 0
    return apart(said, meant) <= slack


def vaguer(said: Span, meant: Span) -> bool:
    """A month for a day, a season for a month. A month is let pass for `early August`.

    A day that is reckoned, such as `the Friday before`, is met by the week that it is in.
    """
    if meant.days >= _MONTH:
        most = 1.5
    elif meant.days > 1:
        most = 2.0 if meant.relation else 3.0
    else:
        most = 10.0 if meant.relation else 2.0
    return said.days > most * meant.days


def nearness(said: Span, meant: Span) -> float:
    """How near a date that does not agree comes, from 0 to 1; what is reckoned may be further off."""
    gap = apart(said, meant)
    if vaguer(said, meant):
        return 0.5 if gap == 0 else 0.0
    reach = 7 if meant.relation else 2
    return max(0.0, 1 - gap / reach) if gap else 0.9
