"""Rows of the samples file are spelled as Python's json module spells them, because the harness uses it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from assay.core.types import End, Record, Request, Score
from assay.suites.task.requests import TaskGold
from assay.suites.task.samples import SamplesWriter
from assay.suites.toolkit.prompt import PromptInputs

_HEAD = (0, "key", "quiz", "openai/m")


def _write_row(folder: Path, doc: dict[str, Any], value: Any, generation: dict[str, Any]) -> str:
    """Write a samples file with one row and return that row."""
    path = folder / "samples.jsonl"
    inputs = PromptInputs([Request(model="openai/m", prompt="2 + 2?")])
    score = Score(*_HEAD, "task@1", "acc", "none", data={"filtered": ["4"], "value": value})
    end = End(*_HEAD, "ask", 1, "ok", [])
    with SamplesWriter(path, ["none"], generation) as writer:
        records = [Record(*_HEAD, 1, "answer", data=[["4"]])]
        writer.write(7, inputs, TaskGold(doc, "4", "4"), end, records, [score])
        writer.close()
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "value",
    [
        *(0.1, 1e-05, 1e-4, 1e16, 9999999999999998.0, -0.0, 5e-324, 1e22, nan, -inf),
        *(2**70, True, None, '\x00\x1f\x7f\u2028 é 😀 \\ / "', [], {}, [[], {}, [1.5, {"a": 1e-7}]]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("place", ["doc", "metric", "generation"])
def test_a_row_of_the_samples_file_is_spelled_as_python_spells_json(tmp_path: Path, value: Any, place: str) -> None:
    doc = {"question": "2 + 2?", "id": 3, "choices": ["3", "4"], "x": value if place == "doc" else 1.0}
    generation = {"temperature": value if place == "generation" else 0.0}
    line = _write_row(tmp_path, doc, value if place == "metric" else 1, generation)
    row = json.loads(line)
    assert line == json.dumps(row, ensure_ascii=False) + "\n"
    assert repr(row["doc"]) == repr(doc)
    assert row["doc_hash"] == hashlib.sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode()).hexdigest()
    assert repr(row["acc"]) == (repr(value) if place == "metric" else "1")


def test_a_value_that_json_lacks_is_written_as_its_text(tmp_path: Path) -> None:
    row = json.loads(_write_row(tmp_path, {"when": datetime(2026, 1, 2, 3, 4)}, 1, {}))  # noqa: DTZ001
    assert row["doc"] == {"when": "2026-01-02 03:04:00"}
