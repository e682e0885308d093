"""Files with random changes: every reader returns, or raises one of our errors, in bounded time and memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import assay
from assay.core.envfile import keys_in
from assay.core.file_check import CheckOptions
from assay.runner import api
from assay.runner.check import check_path
from assay.suites import BUILT_IN, suite_names
from assay.suites.memory.test.loaders import dataset_names

from support.fuzz import accept, expect_printable, fuzzed
from support.mutation import change_member, mutated
from support.suite_files import problems_in

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden"
READ = {".yaml", ".json", ".jsonl", ".eval", ".md", ".csv", ".ipynb"}
MODEL = "async def answer(prompt, params):\n    return 'x'\n"


def files_below(*folders: Path) -> list[Path]:
    """Every file that some reader takes, except large ones."""
    every = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in READ]
    return [path for path in every if path.is_file() and path.stat().st_size < 60_000]


CHECKED = files_below(EXAMPLES, GOLDEN)
IMPORTED = [
    *files_below(GOLDEN / "inspect", GOLDEN / "promptfoo"),
    *(path for path in files_below(GOLDEN / "lm_eval" / "out" / "b_em") if path.name != "requests.jsonl"),
    *sorted((EXAMPLES / "hop-project" / "Tasks").glob("*/TestCases/*_2026*.jsonl")),
]
FORMATS = ["", *suite_names(), "prices", "replies", "results"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is also the working directory, because wrong paths in files are relative to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def copied(source: Path, folder: Path) -> Path:
    """Write a copy of a file into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return Path(shutil.copy(source, folder))


def changed(random: Random, source: Path, folder: Path) -> Path:
    """Write a changed copy of a file into an empty folder."""
    path, data = copied(source, folder), source.read_bytes()
    is_archive = source.suffix == ".eval" and random.random() < 0.8
    path.write_bytes(change_member(random, data) if is_archive else mutated(random, data))
    return path


def test_assay_check_recognises_nearly_all_unchanged_files(place: Path) -> None:
    """Changes of a file that is refused anyway would test little. Few of them, such as a README, are of no format."""
    messages = [
        problem.message
        for source in CHECKED
        for each in check_path(copied(source, place / "files"), CheckOptions(), "")
        for problem in each.check.problems
    ]
    unknown = [message for message in messages if message.startswith("cannot tell what this file is")]
    assert len(unknown) < len(CHECKED) / 10


@fuzzed(400)
def test_assay_check_has_a_sentence_for_any_file(place: Path, random: Random) -> None:
    """In the format that it recognises, and in any other that --as may name."""
    path = changed(random, random.choice(CHECKED), place / "files")
    name = random.choice(FORMATS) if random.random() < 0.4 else ""

    def check() -> None:
        for each in check_path(path, CheckOptions(), name):
            for problem in each.check.problems:
                assert "more memory than there is" not in problem.message
                expect_printable(str(problem))

    accept(check)


def import_cases(path: Path, out: Path) -> list[Any]:
    """Import results into an empty folder, and return all cases of the run."""
    shutil.rmtree(out, ignore_errors=True)
    return list(assay.import_results(path, str(out)).cases())


@pytest.mark.parametrize("source", IMPORTED, ids=lambda path: path.name)
def test_unchanged_results_of_other_programs_become_a_run(place: Path, source: Path) -> None:
    """Changes of a file that is refused anyway would test nothing."""
    import_cases(copied(source, place / "files"), place / "out")


@fuzzed(150)
def test_results_of_other_programs_become_a_run_or_a_sentence(place: Path, random: Random) -> None:
    path = changed(random, random.choice(IMPORTED), place / "files")
    accept(lambda: import_cases(path, place / "out"))


class Input(NamedTuple):
    """A run whose files are changed: the folder that is copied, the files in it, and the options of the spec."""

    source: Path
    files: tuple[str, ...]
    suite: str
    options: dict[str, Any]


MEMORY = {"memory": ["bm25"], "no_answer": True}
MEMORY_EVAL = {"baseline": ["bm25"], "judge": "offline"}
INPUTS = {
    "task": Input(EXAMPLES / "task", ("quickstart.yaml", "questions.jsonl"), "task", {"tasks": ["quickstart.yaml"]}),
    "choices": Input(
        EXAMPLES / "task",
        ("multiple_choice.yaml", "choices.jsonl"),
        "task",
        {"tasks": ["multiple_choice.yaml"]},
    ),
    "pipeline": Input(
        EXAMPLES / "pipeline",
        ("sentiment.yaml", "testsets/unit/sentiment_basic.jsonl"),
        "pipeline",
        {"pipeline": "sentiment.yaml", "testset": ["testsets/unit/sentiment_basic.jsonl"]},
    ),
    "agents": Input(
        EXAMPLES / "prompt-lab-project",
        ("pipelines/support_reply.yaml", "agents/mood_reader/agent.yaml", "testsets/requests_v1.jsonl"),
        "pipeline",
        {"pipeline": "pipelines/support_reply.yaml", "testset": ["testsets/requests_v1.jsonl"]},
    ),
    "hop": Input(
        EXAMPLES / "hop" / "FactCheck",
        ("settings.yaml", "Hoplet/metainfo.md", "TestCases/facts.jsonl"),
        "hop",
        {"target": ".", "data": "TestCases/facts.jsonl"},
    ),
    "locomo": Input(
        EXAMPLES / "memory",
        ("talks.json",),
        "memory-test",
        {"dataset": "locomo", "data": "talks.json", **MEMORY},
    ),
    "longmemeval": Input(
        EXAMPLES / "memory",
        ("longmemeval.json",),
        "memory-test",
        {"dataset": "longmemeval", "data": "longmemeval.json", **MEMORY},
    ),
    "plain": Input(
        EXAMPLES / "memory",
        ("plain.json",),
        "memory-test",
        {"dataset": "plain", "data": "plain.json", **MEMORY},
    ),
    "halumem": Input(
        EXAMPLES / "memory", ("halumem.jsonl",), "memory-eval", {"dataset": "halumem.jsonl", **MEMORY_EVAL}
    ),
    "samples": Input(EXAMPLES / "memory-eval", ("june.json",), "memory-eval", {"dataset": "june.json", **MEMORY_EVAL}),
}


def test_every_suite_with_files_and_every_data_set_is_changed() -> None:
    """A new suite or loader of conversations fails here until INPUTS has files of it.

    The suite `evaluate` has no files, and `calibration` is below.
    """
    assert {given.suite for given in INPUTS.values()} | {"evaluate", "calibration"} == set(BUILT_IN)
    assert {given.options.get("dataset") for given in INPUTS.values()} >= set(dataset_names())


def plan(place: Path, given: Input, change: Callable[[bytes], bytes] = bytes, changed: str = "") -> object:
    """Plan a run over copies of its files, as `--dry-run` does: all files are read, and the first prompt is made."""
    folder = place / "files"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(given.source, folder)
    if changed:
        path = folder / changed
        path.write_bytes(change(path.read_bytes()))
    os.chdir(folder)  # restored by the fixture
    options = given.options | {"model": f"python/{place}/model.py:answer"}
    if "no_answer" in options:
        del options["model"]
    return api.overview(assay.spec(given.suite, output_dir=str(place / "out"), **options))


@pytest.mark.parametrize("name", INPUTS)
def test_a_run_over_unchanged_files_is_planned(place: Path, name: str) -> None:
    assert plan(place, INPUTS[name])


@fuzzed(150)
def test_a_run_over_changed_files_is_planned_or_refused(place: Path, random: Random) -> None:
    given = INPUTS[random.choice(list(INPUTS))]
    name = random.choice(given.files)
    accept(lambda: plan(place, given, lambda data: mutated(random, data), name))


PRICES = b"as_of: 2026-01-01\nmodels:\n  openai/gpt-x: {input: 1.5, output: 2}\n  'b/*': {input: 0.1, output: 0}\n"
ENVIRONMENT = b'# keys\nexport OPENAI_API_KEY=\'a b\'\nHOP_KEY_x-y="q\\"r" # c\nANTHROPIC_API_KEY=z\n'
LABELS = b'{"question": "q", "gold": "a", "answer": "b", "label": true, "votes": [true, false], "category": 1}\n'


SETTINGS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "prices.yaml": (PRICES, lambda path: api.price_table(str(path))),
    ".env": (ENVIRONMENT, keys_in),
    "labels.jsonl": (LABELS * 3, lambda path: problems_in(path, suite="calibration")),
}


def test_unchanged_prices_keys_and_labels_are_read(place: Path) -> None:
    for name, (data, read) in SETTINGS.items():
        (place / name).write_bytes(data)
        read(place / name)
    assert len(keys_in(place / ".env")) == 3
    assert problems_in(place / "labels.jsonl", suite="calibration") == []


@fuzzed(150)
def test_prices_keys_and_labels_are_read_or_refused(place: Path, random: Random) -> None:
    for name, (data, read) in SETTINGS.items():
        path = place / name
        path.write_bytes(mutated(random, data))
        accept(lambda read=read, path=path: read(path))  # type: ignore[misc]
