"""Files that assay itself keeps, with random changes: run folders, labels, notes, calibrations, headers of models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec
import pytest

import assay
from assay.core.errors import InputError
from assay.models.weights.gguf import read_header
from assay.runner import api
from assay.runner.imports import FORMATS
from assay.store.calibrations import calibration_folder, list_calibrations
from assay.store.check import check_run
from assay.store.labels import FILE as LABELS, AnswerLabel, read_labels
from assay.store.notes import FILE as NOTES, Note, RunNotes, read_notes
from assay.store.runs import states
from formats.test_broken_hop_and_pipeline import TEST, lines
from formats.test_memory_test import sage_file
from formats.test_pipeline import write_comparison, write_csv, write_snapshot
from fuzz.test_readers import IMPORTED

from support.fuzz import accept, fuzzed
from support.gguf import tiny_header
from support.mutation import mutated
from support.runs import run_of
from support.shards import make_files, make_shards, small_run

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


def write_runs(folder: Path) -> Path:
    """Write two runs of the same cases. Returns the first one, which has labels and notes."""
    for name in ("one", "two"):
        shutil.rmtree(folder / name, ignore_errors=True)
        run_of(folder / name, {"a": True, "b": False})
    for name, data in OWN_FILES.items():
        (folder / "one" / name).write_bytes(data)
    return folder / "one"


READERS: dict[str, Callable[[Path], object]] = {
    "runs": lambda folder: list(states(folder.parent)),
    "check": check_run,
    "show": lambda folder: list(assay.load(folder).cases()),
    "label": read_labels,
    "note": read_notes,
    "compare": lambda folder: api.compare(folder, folder.parent / "two"),
}
"""What the commands of these names read of a run."""


def test_an_unchanged_run_folder_is_read_by_every_command(place: Path) -> None:
    """Changes of a folder that is refused anyway would test nothing."""
    folder = write_runs(place / "runs")
    for read in READERS.values():
        read(folder)
    assert check_run(folder).problems == []
    assert read_labels(folder) == [LABEL]
    assert read_notes(folder).tags == ["a"]


@fuzzed(30)
def test_a_changed_run_folder_is_read_or_named_as_damaged(place: Path, random: Random) -> None:
    folder = write_runs(place / "runs")
    path = random.choice([each for each in sorted(folder.iterdir()) if each.is_file()])
    path.write_bytes(mutated(random, path.read_bytes()))
    for read in READERS.values():
        accept(lambda read=read: read(folder))  # type: ignore[misc]


@pytest.fixture
def shards(place: Path) -> list[str]:
    """The output folders of a task in two shards."""
    small = small_run("task")
    make_files(small, place)
    return make_shards(small, 2)


def test_unchanged_shards_are_merged(shards: list[str]) -> None:
    assert len(list(assay.merge(shards, "merged").cases())) == 8


@fuzzed(15)
def test_changed_shards_are_merged_or_named_as_damaged(shards: list[str], random: Random) -> None:
    for name in ("changed", "merged"):
        shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(shards[0], "changed")
    path = random.choice([each for each in sorted(Path("changed/assay").glob("*/*")) if each.is_file()])
    path.write_bytes(mutated(random, path.read_bytes()))
    accept(lambda: assay.merge(["changed", shards[1]], "merged"))


def write_calibration(change: Callable[[bytes], bytes]) -> None:
    """Write a calibration of the user: that of the offline judge, changed."""
    folder = calibration_folder()
    folder.mkdir(parents=True, exist_ok=True)
    source = ROOT / "src" / "assay" / "scoring" / "calibrations" / "offline.json"
    (folder / "mine.json").write_bytes(change(source.read_bytes()))


def test_an_unchanged_calibration_is_read(place: Path) -> None:
    built_in = len(list_calibrations(pytest.fail))
    write_calibration(bytes)
    assert len(list_calibrations(pytest.fail)) > built_in


@fuzzed(40)
def test_a_changed_calibration_is_read_or_told(place: Path, random: Random) -> None:
    write_calibration(lambda data: mutated(random, data))
    accept(lambda: list_calibrations(lambda _: None))


HEADER = tiny_header(
    general__architecture="llama",
    general__name="x",
    llama__context_length=64,
    tokenizer__chat_template="{{ x }}",
)


def test_the_unchanged_header_of_a_model_is_read(place: Path) -> None:
    path = place / "model.gguf"
    path.write_bytes(HEADER)
    assert read_header(path)


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
        write = {"snapshot.json": write_snapshot, "eval.csv": write_csv, "compare.csv": write_comparison}[kind]
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


@pytest.mark.parametrize("kind", RESULTS)
def test_unchanged_result_folders_become_a_run(place: Path, kind: str) -> None:
    path = write_results(place / "results", kind)
    assert list(assay.import_results(path, str(place / "out")).cases())


@fuzzed(50)
def test_result_folders_of_memories_and_pipelines_become_a_run_or_a_sentence(place: Path, random: Random) -> None:
    folder = place / "results"
    for each in (folder, place / "out"):
        shutil.rmtree(each, ignore_errors=True)
    path = write_results(folder, random.choice(RESULTS))
    changed = random.choice(sorted(folder.iterdir()))
    changed.write_bytes(mutated(random, changed.read_bytes()))
    accept(lambda: list(assay.import_results(path, str(place / "out")).cases()))
