"""Means of shares whose values come in clusters: questions about one conversation are not independent."""

from __future__ import annotations

from array import array
from typing import Any

from assay.scoring.paired import paired


class Values:
    """Numbers from 0 to 1, and the cluster of each: sixteen bytes a value."""

    def __init__(self) -> None:
        self._values = array("d")
        self._clusters = array("q")

    def add(self, value: float, cluster: int) -> None:
        """One value."""
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
            "interval": _within(found.interval),
        }


def _within(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Every value is a share: of two clusters an interval can be wider than all that is possible."""
    return (max(0.0, interval[0]), min(1.0, interval[1])) if interval else None
