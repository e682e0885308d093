"""A named pipe in place of a file keeps `assay import` waiting nowhere: reading one waits for a writer for ever."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.commands import environment

GOLDEN = Path(__file__).parents[1] / "golden"
# Far more than an import takes. A command that waits for a writer is ended by it.
SECONDS = 60
RESULT = {"id": 1, "tag": "t", "q": "2+2?", "hop_result": '{"answer": 4}', "profile": "p"}
QUESTION = {
    "question_index": 1,
    "question_text": "Who?",
    "predicted_answer": "ann",
    "reference_answer": "ann",
    "evidence": ["D1:1"],
}
CONVERSATION = {
    "experiment_info": {"dataset": "plain", "task_id": "0000"},
    "dataset_statistics": {
        "total_sessions": 1,
        "total_dialogs": 1,
        "total_questions": 1,
        "valid_questions": 1,
        "invalid_questions": [],
    },
    "test_summary": {"total_tests": 1, "test_threshold": "1/1 of total questions"},
    "test_results": [
        {
            "test_index": 1,
            "question_range": {"start": 1, "end": 1},
            "dialogs_inserted_count": 1,
            "questions": [QUESTION],
        }
    ],
}


def pipe(path: Path) -> Path:
    """Make a pipe that nobody writes to. Its folder is made too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def write(path: Path, value: Any) -> Path:
    """Write a file of one line of JSON. Its folder is made too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n")
    return path


def imported(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type `assay import` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "assay", "import", *words, "--output-dir", "out"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("format_name", ["", "hop", "inspect"])
def test_a_pipe_is_refused_with_a_sentence(tmp_path: Path, format_name: str) -> None:
    """Whatever format its name promises."""
    names = [
        "results_x.json",
        "samples_x.jsonl",
        "results.jsonl",
        "0000.json",
        "log.eval",
        "out.yaml",
        "x.csv",
    ]
    for name in names:
        pipe(tmp_path / name)
    done = imported(tmp_path, *names, *(["--as", format_name] if format_name else []))
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"{name}: is a named pipe, not a file; write its content to a file first" for name in names
    ]
    assert not (tmp_path / "out").exists()


def test_a_folder_of_pipes_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for name in ("results_x.json", "qa_records.jsonl", "r.jsonl", "0000.json", "log.eval"):
        pipe(tmp_path / name.partition(".")[0] / name)
    folders = sorted(path.name for path in tmp_path.iterdir())
    done = imported(tmp_path, *folders)
    assert done.returncode == 2
    for folder in folders:
        assert f"\n{folder}" in f"\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_a_pipe_beside_results_does_not_stop_their_import(tmp_path: Path) -> None:
    """In the folders of all formats that look at the files beside a result."""
    write(tmp_path / "hop" / "r.jsonl", RESULT)
    pipe(tmp_path / "hop" / "s.jsonl")
    pipe(tmp_path / "hop" / "observer.jsonl")
    write(tmp_path / "sage" / "0000.json", CONVERSATION)
    pipe(tmp_path / "sage" / "0001.json")
    (tmp_path / "evaluation").mkdir()
    shutil.copy(GOLDEN / "memory_eval" / "aggregate_metrics.json", tmp_path / "evaluation")
    pipe(tmp_path / "evaluation" / "qa_records.jsonl")
    shutil.copytree(GOLDEN / "lm_eval" / "out" / "b_em", tmp_path / "lm")
    samples = next((tmp_path / "lm").rglob("samples_*.jsonl"))
    samples.unlink()
    pipe(samples)
    done = imported(tmp_path, "hop", "sage/0000.json", "sage", "evaluation", "lm")
    assert done.returncode == 0, done.stderr
    runs = [line for line in done.stdout.splitlines() if "results" in line and "out/assay/" in line]
    formats = [line.partition(" results")[0].rpartition(" ")[2] for line in runs]
    assert formats == ["hop", "memory-test", "memory-eval", "lm-eval"]
    assert "sage was imported before" in done.stdout


def test_data_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "0000.json", CONVERSATION)
    pipe(tmp_path / "talks.json")
    done = imported(tmp_path, "0000.json", "--data", "talks.json")
    assert done.returncode == 2
    assert "talks.json: is a named pipe, not a file" in done.stderr
