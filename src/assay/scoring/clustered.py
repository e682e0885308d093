"""Means of shares whose values come in clusters: questions about one conversation are not independent."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

from assay.scoring.paired import Paired, paired
from assay.scoring.statistics import wilson

_NO_WIDTH = 1e-12
"""What rounding leaves of a standard error that is 0."""


class Values:
    """Numbers from 0 to 1, and the cluster of each: sixteen bytes a value."""

    def __init__(self) -> None:
        self._values = array("d")
        self._clusters = array("q")
        self.left_out: Counter[str] = Counter()

    def add(self, value: float | str, cluster: int) -> None:
        """One value, or why there is none."""
        if isinstance(value, str):
            self.left_out[value] += 1
            return
        self._values.append(value)
        self._clusters.append(cluster)

    def summary(self) -> dict[str, Any]:
        """The mean with its denominator, its standard error and its interval; null where nothing is."""
        import numpy as np

        values = np.array(self._values)
        if not len(values):
            return {"value": None, "n": 0, "clusters": 0, "stderr": None, "interval": None}
        found = paired(np.zeros(len(values)), values, np.array(self._clusters))
        return {
            "value": found.difference,
            "n": found.n,
            "clusters": found.clusters,
            "stderr": found.stderr,
            "interval": _interval(found),
        }


def _interval(found: Paired) -> tuple[float, float] | None:
    """None of one cluster. Wilson's where all agree, and of right and wrong with one value a cluster.

    Where all agree Student's t would have no width: clusters count as single cases, which errs on the safe
    side. Every value is a share: of two clusters an interval can be wider than all that is possible.
    """
    if found.clusters < 2:
        return None
    alike = found.stderr is not None and found.stderr < _NO_WIDTH
    if alike or (found.right_wrong and found.clusters == found.n):
        return wilson(found.difference * found.clusters, found.clusters)
    return (max(0.0, found.interval[0]), min(1.0, found.interval[1])) if found.interval else None
