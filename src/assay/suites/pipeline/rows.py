"""`results.jsonl` and `results.csv`: every test with what each step gave, and outputs side by side."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import IO, Any

import msgspec

from assay.core.types import End, Score
from assay.suites.pipeline.evaluation import Given
from assay.suites.pipeline.tally import NO_ANSWER
from assay.suites.pipeline.testset.case import TestCase

_encode = msgspec.json.Encoder().encode
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Row(msgspec.Struct, frozen=True):
    """One test of one variant, as both files need it."""

    set: str
    variant: str
    test: TestCase
    found: Given
    end: End | None
    score: Score | None

    @property
    def result(self) -> str:
        """Its verdict; a test whose model or judge gave no answer has none."""
        return str(self.score.data["verdict"]) if self.score else NO_ANSWER

    def record(self) -> dict[str, Any]:
        """A line of results.jsonl."""
        test, found, said = self.test, self.found, self.score.data if self.score else {}
        tokens = [step.get("tokens") or [0, 0] for step in found.steps.values()]
        record: dict[str, Any] = {
            "id": test.id,
            "set": self.set,
            "variant": self.variant,
            "tags": test.tags,
            "result": self.result,
            "reason": self.reason,
            "inputs": test.inputs,
            "step_inputs": test.step_inputs,
            "batch_items": test.batch_items,
            "steps": found.steps,
            "outputs": found.outputs,
            "checks": said.get("checks", []),
            "first_wrong": said.get("first_wrong"),
            "seconds": round(found.seconds, 6),
            "tokens": {"input": sum(one[0] for one in tokens), "output": sum(one[1] for one in tokens)},
        }
        return record

    @property
    def reason(self) -> str:
        """Why it did not pass; empty where it did."""
        if self.score is None:
            failure = self.end.failure if self.end else None
            return f"{failure.kind}: {failure.message}" if failure else "it was not judged"
        return self.score.reason


class RowFiles:
    """Writes both files at once, case by case; the variants of a test stand side by side in the table."""

    def __init__(self, folder: Path, outputs: list[str], variants: list[str]) -> None:
        self.paths = [folder / "results.jsonl", folder / "results.csv"]
        self._outputs = outputs
        self._variants = variants
        self._jsonl: IO[bytes] = self.paths[0].open("wb")
        self._csv: IO[str] = self.paths[1].open("w", encoding="utf-8", newline="")
        self._table = csv.writer(self._csv)
        self._table.writerow(["id", "set", "tags", *self._columns()])

    def _columns(self) -> list[str]:
        names = ["result", "first_wrong", "seconds", *(f"output__{key}" for key in self._outputs)]
        return [f"{name}__{variant}" for variant in self._variants for name in names]

    def write(self, rows: list[Row]) -> None:
        """One test: a row of each variant, in their order."""
        for row in rows:
            self._jsonl.write(_encode(row.record()) + b"\n")
        test = rows[0].test
        cells = [cell for row in rows for cell in self._cells(row)]
        self._table.writerow([_safe(str(test.id)), _safe(rows[0].set), _safe(";".join(test.tags)), *cells])

    def _cells(self, row: Row) -> list[str]:
        wrong = (row.score.data.get("first_wrong") or {}) if row.score else {}
        outputs = [_cell(row.found.outputs, key) for key in self._outputs]
        return [row.result, _safe(wrong.get("step", "")), f"{row.found.seconds:.3f}", *outputs]

    def close(self) -> None:
        """All of it is on its way to the disk."""
        self._jsonl.close()
        self._csv.close()


def _cell(outputs: dict[str, Any], key: str) -> str:
    if key not in outputs:
        return ""
    value = outputs[key]
    return _safe(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    """What a spreadsheet would take for a formula gets a quote before it: replies are not to run."""
    return f"'{text}" if text.startswith(_FORMULA) else text
