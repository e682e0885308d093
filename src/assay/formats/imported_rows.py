"""The base of readers whose runs belong to the evaluate suite: rows, answers and scores of any other program.

An evaluation has its rows in `rows.jsonl` of the run folder, because no data file has them. An imported run has a
line for each case there, whatever its subject: another program may have run only some subjects on a row.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator
from math import isclose, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.imported import ImportedCase, ImportedRun, ImportPlan
from assay.core.report import Metric
from assay.core.row_keys import row_key
from assay.scoring.intervals import Bounds, statistic_interval, wilson
from assay.scoring.metric_builders import mean_metric
from assay.suites.evaluate.scorers import RIGHT_WRONG
from assay.suites.evaluate.suite import ROWS_FILE

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
# Relative difference between a number of the file and its cases that is more than rounding.
_TOLERANCE = 1e-6


class RowCase(NamedTuple):
    """A case with its row. `gold` columns of the row are not part of the key."""

    case: ImportedCase
    row: dict[str, Any]


class ImportedRows(ImportedRun):
    """A reader that yields its cases with their rows."""

    def __init__(self, plan: ImportPlan, gold: list[str]) -> None:
        plan.facts = {"subjects": 1, "gold": gold, "program": plan.producer}
        super().__init__(plan)
        self._folder: Path | None = None
        self._seen: Counter[tuple[str, str]] = Counter()

    def prepare(self, folder: Path) -> None:
        """Remember the folder: `cases` writes the rows into it."""
        self._folder = folder

    @abstractmethod
    def row_cases(self) -> Iterator[RowCase]:
        """Yield the cases with their rows, in data order."""

    def cases(self) -> Iterator[ImportedCase]:
        """Yield the cases and write their rows to the run folder."""
        assert self._folder is not None
        with (self._folder / ROWS_FILE).open("xb") as file:
            for case, row in self.row_cases():
                file.write(_encode(row) + b"\n")
                yield case

    def key(self, inputs: dict[str, Any], subject: str) -> str:
        """Return the key of a row: that of a native evaluation of the same columns. Call it once for each case."""
        key = row_key(_encode_sorted(inputs))
        self._seen[subject, key] += 1
        number = self._seen[subject, key]
        return key if number == 1 else f"{key}~{number}"


class CaseValues:
    """The values of one metric over the cases, to be put beside the number that the file has."""

    def __init__(self) -> None:
        self.values = array("d")
        self.right_wrong = True
        """True if the file says of every value that it is right or wrong: True, False, a letter such as C or I."""

    def add(self, value: float, data: Any) -> None:
        """Add the value of a score, with the score's data."""
        self.values.append(value)
        self.right_wrong &= isinstance(data, dict) and RIGHT_WRONG in data

    def metric(self, name: str, **fields: Any) -> Metric:
        """Return the mean of the values with its interval, where the file has no number."""
        return mean_metric(name, self.values, right_wrong=self.right_wrong, **fields)

    def agree(self, value: float | None) -> bool:
        """Return whether a number is the mean of these values."""
        if value is None or not self.values:
            return False
        return isclose(value, sum(self.values) / len(self.values), rel_tol=_TOLERANCE, abs_tol=1e-12)

    def file_metric(self, name: str, value: float | None, stderr: float | None, **fields: Any) -> Metric:
        """Return the number of the file. Its interval is Wilson's if it is the share of right ones among the values."""
        value = value if value is not None and isfinite(value) else None
        stderr = stderr if stderr is not None and isfinite(stderr) else None
        if self.right_wrong and self.agree(value) and all(one in (0.0, 1.0) for one in self.values):
            right = sum(self.values)
            return Metric(
                name=name,
                value=value,
                numerator=right,
                stderr=stderr,
                interval=wilson(right, len(self.values)),
                interval_method="wilson",
                **fields,
            )
        bounds = Bounds(None, "")
        if value is not None:
            is_share = self.right_wrong and bool(self.values) and all(0.0 <= one <= 1.0 for one in self.values)
            bounds = statistic_interval(value, stderr, len(self.values), is_share=is_share)
        return Metric(
            name=name,
            value=value,
            stderr=stderr,
            interval=bounds.interval,
            interval_method=bounds.method,
            reason="" if value is not None else "the file has no number",
            **fields,
        )
