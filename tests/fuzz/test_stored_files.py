"""Files that assay itself keeps, with random changes: run folders, labels, notes, calibrations, headers of models."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

import assay
from assay import api
from assay.core.errors import InputError
from assay.imports import FORMATS
from assay.models.llama.gguf import read_header
from assay.store.calibrations import calibration_folder, list_calibrations
from assay.store.check import check_run
from assay.store.labels import FILE as LABELS
from assay.store.labels import AnswerLabel, read_labels
from assay.store.notes import FILE as NOTES
from assay.store.notes import Note, RunNotes, read_notes
from assay.store.runs import states
from fuzz.test_readers import IMPORTED
from imports.test_broken_hop_and_pipeline import TEST, lines
from imports.test_memory_test import sage_file
from imports.test_pipeline import write_comparison, write_csv, write_snapshot

from support.fuzz import accept, fuzzed
from support.gguf import tiny_header
from support.mutation import mutated
from support.runs import run_of

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
(LM_EVAL,) = (path for path in (GOLDEN / "lm_eval" / "out" / "b_em").iterdir() if path.is_dir())
LABEL = AnswerLabel(
    question="q",
    reference="a",
    response="b",
    label=True,
    set="set",
    case="a",
    subject="m",
    metric="x",
    by="me",
    at=1.0,
)
OWN_FILES = {
    LABELS: msgspec.json.encode(LABEL) + b"\n",
    NOTES: msgspec.json.encode(RunNotes(notes=[Note(1.0, "good")], tags=["a"])),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is also the working directory and that of the user's calibrations."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "data"))
    return tmp_path


@fuzzed(30)
def test_a_changed_run_folder_is_read_or_named_as_damaged(place: Path, random: Random) -> None:
    """By the commands that read runs: runs, show, check, label, note, compare and merge."""
    for name in ("one", "two"):
        shutil.rmtree(place / "runs" / name, ignore_errors=True)
        run_of(place / "runs" / name, {"a": True, "b": False})
    folder = place / "runs" / "one"
    for name, data in OWN_FILES.items():
        (folder / name).write_bytes(data)
    path = random.choice([each for each in sorted(folder.iterdir()) if each.is_file()])
    path.write_bytes(mutated(random, path.read_bytes()))
    accept(lambda: list(states(place / "runs")))
    accept(lambda: check_run(folder))
    accept(lambda: list(assay.load(folder).cases()))
    accept(lambda: read_labels(folder))
    accept(lambda: read_notes(folder))
    accept(lambda: api.compare(folder, place / "runs" / "two"))
    accept(lambda: api.merge([folder, place / "runs" / "two"], str(place / "merged")))


@fuzzed(40)
def test_a_changed_calibration_is_read_or_told(place: Path, random: Random) -> None:
    folder = calibration_folder()
    folder.mkdir(parents=True, exist_ok=True)
    source = (ROOT / "src" / "assay" / "scoring" / "calibrations" / "offline.json").read_bytes()
    (folder / "mine.json").write_bytes(mutated(random, source))
    accept(lambda: list_calibrations(lambda _: None))


HEADER = tiny_header(
    general__architecture="llama",
    general__name="x",
    llama__context_length=64,
    tokenizer__chat_template="{{ x }}",
)


@fuzzed(100)
def test_the_header_of_a_model_is_read_or_refused(place: Path, random: Random) -> None:
    path = place / "model.gguf"
    path.write_bytes(mutated(random, HEADER))
    accept(lambda: read_header(path))


def write_results(folder: Path, kind: str) -> Path:
    """Write results in a format that only a folder or a test of another file shows. Returns the path to import."""
    folder.mkdir()
    if kind == "memory-test":
        (folder / "0000.json").write_text(json.dumps(sage_file()))
    elif kind == "lm-eval":
        shutil.copytree(LM_EVAL, folder, dirs_exist_ok=True)
    elif kind == "memory-eval":
        for name in ("session_record", "qa_record"):
            value = json.loads((GOLDEN / "memory_eval" / f"{name}.json").read_text())
            (folder / f"{name}s.jsonl").write_text(json.dumps(value) + "\n")
        shutil.copy(GOLDEN / "memory_eval" / "aggregate_metrics.json", folder)
    elif kind == "pipeline":
        (folder / "results.jsonl").write_bytes(lines(TEST, TEST | {"id": "b"}))
        return folder / "results.jsonl"
    else:
        write = {"snapshot.json": write_snapshot, "eval.csv": write_csv, "compare.csv": write_comparison}[
            kind
        ]
        write(folder / f"x.{kind}")
        return folder / f"x.{kind}"
    return folder


RESULTS = ["lm-eval", "memory-test", "memory-eval", "pipeline", "snapshot.json", "eval.csv", "compare.csv"]


def test_every_format_of_results_is_changed(place: Path) -> None:
    """A new format of `assay import` fails here until this file, or test_readers.py, has a file of it."""
    written = [write_results(place / kind, kind) for kind in RESULTS]
    formats = set()
    for path in [*written, *IMPORTED]:
        for name, about in FORMATS.items():
            with suppress(InputError):
                if (source := about.read(path)) is not None:
                    source.close()
                    formats.add(name)
    assert formats == set(FORMATS)


@fuzzed(50)
def test_result_folders_of_memories_and_pipelines_become_a_run_or_a_sentence(
    place: Path, random: Random
) -> None:
    folder = place / "results"
    for each in (folder, place / "out"):
        shutil.rmtree(each, ignore_errors=True)
    path = write_results(folder, random.choice(RESULTS))
    changed = random.choice(sorted(folder.iterdir()))
    changed.write_bytes(mutated(random, changed.read_bytes()))
    accept(lambda: list(api.import_results(path, str(place / "out")).cases()))
