"""Writes what came of a calibration: its numbers, and the rows on which judge and labels differ."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from assay.core.judges import Calibration
from assay.core.types import Score
from assay.store.calibrations import write
from assay.suites.calibration.row import Row

_encode = msgspec.json.Encoder().encode


def write_calibration(folder: Path, calibration: Calibration) -> Path:
    """`calibration.json`: the same document that is remembered."""
    return write(folder / "calibration.json", calibration)


class Disagreements:
    """`disagreements.jsonl`: rows that judge and label see otherwise, or that have no verdict."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "disagreements.jsonl"

    def __enter__(self) -> Self:
        self._file = self.path.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, row: Row, score: Score) -> None:
        """A row with its verdict; one on which both agree is not written."""
        said = None if score.value is None else bool(score.value)
        if said is row.label:
            return
        kind = {True: "false accept", False: "false reject", None: "invalid"}[said]
        told: dict[str, Any] = {"place": row.place, "what": kind, "category": row.category}
        told |= {"rubric": row.rubric} if row.rubric else {"question": row.question}
        told |= {"reference": row.reference, "response": row.response, "label": row.label}
        told |= {"judge": (score.data or {}).get("label") or said, "sure": (score.data or {}).get("sure")}
        told |= {"reason": score.reason}
        self._file.write(_encode(told) + b"\n")


def metrics_of(calibration: Calibration) -> list[dict[str, Any]]:
    """The numbers in the form that all suites have, so that lists of runs show them."""
    found = calibration.overall
    values = {
        "kappa": (found.kappa, found.interval),
        "auc": (found.auc, None),
        "accuracy": (found.accuracy, None),
        "balanced_accuracy": (found.balanced_accuracy, None),
    }
    return [
        {
            "filter": "",
            "metric": name,
            "aggregation": name,
            "higher_is_better": True,
            "value": value,
            "n": found.n,
            "stderr": None,
            "interval": interval,
        }
        for name, (value, interval) in values.items()
    ]
