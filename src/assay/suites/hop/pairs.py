"""Profiles of result files against each other, on the rows they share, as `assay compare` counts them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec

from assay.core.report import PairedRow
from assay.scoring.paired import fill_row, paired
from assay.suites.hop.analysis import Seen


class Pairs:
    """Whether each row was right, by profile. Of rows that stand there twice the last one counts."""

    def __init__(self) -> None:
        self._right: dict[str, dict[bytes, bool]] = {}

    def add(self, seen: Seen, right: bool | None) -> None:
        """One row; those without an id or an expectation have no partner."""
        if right is not None and seen.id is not None:
            self._right.setdefault(seen.profile, {})[msgspec.json.encode(seen.id)] = right

    def summary(self) -> dict[str, dict[str, Any]]:
        """Of each profile: the earlier ones it has rows in common with, and the comparison with them."""
        found: dict[str, dict[str, Any]] = {}
        for base, new in combinations(self._right, 2):
            if row := _compared(self._right[base], self._right[new]):
                found.setdefault(new, {})[base] = msgspec.to_builtins(row)
        return found


def _compared(base: dict[bytes, bool], new: dict[bytes, bool]) -> PairedRow | None:
    import numpy as np

    both = [key for key in base if key in new]
    if not both:
        return None
    one, two = (np.array([side[key] for key in both], dtype=float) for side in (base, new))
    row = PairedRow(set="", metric="correct", part="", higher_is_better=True, n=0)
    fill_row(row, paired(one, two, np.arange(len(both))))
    return row
