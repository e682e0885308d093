"""The examples of the format's description fit our structs, and its script reads our files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.suites.memory.eval.eval_columns import Aggregate
from assay.suites.memory.eval.result_lines import QaEval, QaLine, SessionEval, SessionLine, encode

from suites.memory.eval.doubles import GOLDEN, question, session


def paths(value: Any, prefix: str = "") -> list[str]:
    """Return the path of every key, in order."""
    if isinstance(value, dict):
        return [path for key, item in value.items() for path in (f"{prefix}.{key}", *paths(item, f"{prefix}.{key}"))]
    if isinstance(value, list):
        return [path for place, item in enumerate(value) for path in paths(item, f"{prefix}[{place}]")]
    return []


@pytest.mark.parametrize(("file", "kind"), [("session_record.json", SessionLine), ("qa_record.json", QaLine)])
def test_the_examples_are_our_types(file: str, kind: type[msgspec.Struct]) -> None:
    """Reading and writing them keeps all keys, their order and values."""
    raw = (GOLDEN / file).read_bytes()
    written = json.loads(encode(msgspec.json.decode(raw, type=kind)))
    assert paths(written) == paths(json.loads(raw))
    assert written == json.loads(raw)


def test_a_row_without_an_eval_has_no_such_key() -> None:
    """A pipeline line equals its record without the last key."""
    for file, row in (("session_record.json", session()), ("qa_record.json", question())):
        wanted = [key for key in json.loads((GOLDEN / file).read_bytes()) if key != "eval"]
        assert list(json.loads(encode(row))) == wanted


def test_evals_have_every_key_of_the_document() -> None:
    """Even without verdicts: null and 0 are written."""
    for file, evaluation in (
        ("session_record.json", SessionEval(session_id="S01")),
        ("qa_record.json", QaEval()),
    ):
        wanted = list(json.loads((GOLDEN / file).read_bytes())["eval"])
        assert list(json.loads(encode(evaluation))) == wanted


def test_files_of_other_tools_may_lack_and_add_keys() -> None:
    """Accepts numbers as backend ids, missing citations and uuid, and extra keys."""
    record = json.loads((GOLDEN / "qa_record.json").read_bytes())
    for key in ("cited_memories", "sample_uuid", "difficulty", "eval"):
        del record[key]
    record["retrieval"]["items"][0] |= {"raw_backend_id": 7, "score": None}
    row = msgspec.json.decode(json.dumps(record | {"storage_seconds": 1.5}), type=QaLine)
    assert (row.cited_memories, row.sample_uuid, row.retrieval.items[0].raw_backend_id) == ([], "", 7)


def test_the_documents_script_runs_on_our_files(tmp_path: Path) -> None:
    """The script runs unchanged. It counts an answer without a verdict as incorrect."""
    folder = tmp_path / "results" / "FUMemory"
    folder.mkdir(parents=True)
    labels = [("FR", "Correct"), ("FR", "Omission"), ("MH", None)]
    total, lines = Aggregate(), []
    for abbrev, label in labels:
        evaluation = QaEval(answer_label=label, answer_is_valid=label is not None)
        total.add_question(evaluation)
        lines.append(encode(msgspec.structs.replace(question(abbrev=abbrev), eval=evaluation)))
    total.add_session(SessionEval(session_id="S01", recall=0.8, covered_count=4, num_gold=5))
    (folder / "qa_records.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "aggregate_metrics.json").write_bytes(encode(total.metrics("FUMemory")))
    command = [sys.executable, "-X", "utf8", str(GOLDEN / "analysis.txt")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "Recall: 80.00%",
        "QA Correct: 50.00%",
        " FR: 1/2 = 50%",
        " MH: 0/1 = 0%",
    ]
