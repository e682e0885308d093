"""Messages that name the real cause of a mistake and the next step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import TASK, write_docs
from support.commands import run_here
from support.memory_talks import talk

HOP = "async def hop(session, fields):\n    return {'said': session.model.chat(fields['note'])}\n"
ROW = {"id": 1, "tag": "a", "note": "caf\u00e9", "question": "1+1?", "answer": "2"}
LATIN_1 = "not UTF-8: byte 0xe9, perhaps GBK, Latin-1 or Windows-1252; save the file as UTF-8"
UTF_16 = "this is UTF-16; save the file as UTF-8"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a hop function, its rows, a task, a conversation and a model."""
    (tmp_path / "hop.py").write_text(HOP)
    (tmp_path / "model.py").write_text("def answer(prompt, params):\n    return '2'\n")
    (tmp_path / "sums.yaml").write_text(TASK)
    write_docs(tmp_path / "rows.jsonl", [ROW])
    write_docs(tmp_path / "sums.jsonl", [ROW])
    write_docs(tmp_path / "talks.json", [talk(words="likes caf\u00e9 and")])
    return tmp_path


MODEL = ("--model", "python/model.py:answer", "--output-dir", "out")
HOP_COMMAND = ("hop", "hop.py:hop", "rows.jsonl", *MODEL)
MEMORY_COMMAND = ("memory", "test", "--dataset", "plain", "--data", "talks.json", *MODEL, "--memory")


def test_a_wrong_value_of_an_option_gets_the_nearest_one_and_all_of_them(place: Path) -> None:
    ended = run_here([*HOP_COMMAND, "--wrapper", "vew"], place)
    assert ended.returncode == 2
    assert ended.stderr == ("there is no --wrapper value named 'vew'; did you mean 'view'? Choose one of: flat, view\n")
    assert "`view`" in run_here(["hop", "--help"], place).stdout


def test_a_call_without_await_is_named(place: Path) -> None:
    ended = run_here(HOP_COMMAND, place)
    assert ended.returncode == 1
    assert "the result is chat(…), a call without `await`" in ended.stdout
    assert "never awaited" not in ended.stderr


def test_a_memory_that_needs_a_model_does_not_advise_the_flag_that_is_there(place: Path) -> None:
    words = [word for word in MEMORY_COMMAND if word not in ("--model", "python/model.py:answer")]
    ended = run_here([*words, "GAMemory", "--no-answer"], place)
    assert ended.returncode == 2
    assert ended.stderr == (
        "--model is missing: GAMemory calls a model to store or search. Name it with --model or --build-model.\n"
    )


def test_a_memory_in_other_letters_is_the_only_suggestion(place: Path) -> None:
    ended = run_here([*MEMORY_COMMAND, "fumemory"], place)
    assert (ended.returncode, ended.stderr) == (
        2,
        "there is no memory named 'fumemory'; did you mean 'FUMemory'?\n",
    )


@pytest.mark.parametrize(
    "words",
    [
        ("task", "odd.yaml", *MODEL),
        ("task", "sums.yaml", "--model", "script/odd.jsonl", "--output-dir", "out"),
        ("hop", "hop.py:hop", "rows.jsonl", *MODEL, "--settings", "odd.yaml"),
        ("hop", "odd.py:hop", "rows.jsonl", *MODEL),
    ],
)
def test_a_path_that_is_no_file_is_not_suggested_for_itself(place: Path, words: tuple[str, ...]) -> None:
    for name in ("odd.yaml", "odd.jsonl", "odd.py"):
        (place / name).mkdir()
    ended = run_here(words, place)
    assert ended.returncode == 2
    assert ended.stderr.endswith("; it is a folder\n")
    for name in ("odd.yaml", "odd.jsonl", "odd.py"):
        (place / name).rmdir()
        os.mkfifo(place / name)
    assert run_here(words, place).stderr.endswith("; it is a pipe, a device or a socket\n")


@pytest.mark.parametrize(("encoding", "message"), [("utf-16", UTF_16), ("latin-1", LATIN_1)])
@pytest.mark.parametrize(
    ("command", "file"),
    [
        (HOP_COMMAND, "rows.jsonl"),
        (("task", "sums.yaml", *MODEL), "sums.jsonl"),
        (("task", "sums.yaml", *MODEL), "sums.yaml"),
        ((*MEMORY_COMMAND, "bm25"), "talks.json"),
    ],
)
def test_a_file_in_another_encoding_is_refused_with_its_name(
    place: Path, command: tuple[str, ...], file: str, encoding: str, message: str
) -> None:
    text = (place / file).read_text()
    (place / file).write_text(f"{text}# caf\u00e9\n" if file == "sums.yaml" else text, encoding=encoding)
    ended = run_here(command, place)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(file)
    assert line.endswith(message)


def task_command(place: Path, kind: str, file: str) -> tuple[str, ...]:
    """The command of a task whose data is another file."""
    text = TASK.replace("dataset_path: json", f"dataset_path: {kind}").replace("sums.jsonl", file)
    if file == "field.json":
        text = text.replace("dataset_kwargs: {", "dataset_kwargs: {field: rows, ")
    (place / "other.yaml").write_text(text)
    return ("task", "other.yaml", *MODEL)


def pipeline_command(place: Path, _: str, file: str) -> tuple[str, ...]:
    """The command of a pipeline whose testset, or pipeline, is this file."""
    if file != "p.yaml":
        (place / "p.yaml").write_text(PIPELINE)
    return ("pipeline", "p.yaml", "--testset", "tests.jsonl", *MODEL)


def other_command(place: Path, words: str, file: str) -> tuple[str, ...]:
    """Any other command, with the file as its last word."""
    return (*words.split(), file)


PIPELINE = "id: p\ninputs: [note]\nsteps: [{id: say, template: '{{ note }}'}]\n# caf\u00e9\n"
TEST = {"id": "a", "inputs": {"note": "caf\u00e9"}}
LABEL = {"question": "caf\u00e9?", "reference": "A", "response": "B", "label": "wrong"}
OTHER_FILES: dict[str, tuple[Any, Callable[[Path, str, str], tuple[str, ...]], str]] = {
    "list.json": ([ROW], task_command, "json"),
    "objects.json": (ROW, task_command, "json"),
    "field.json": ({"rows": [ROW]}, task_command, "json"),
    "table.csv": ("question,answer\ncaf\u00e9,2\n", task_command, "csv"),
    "lines.txt": ("caf\u00e9\n", task_command, "text"),
    "p.yaml": (PIPELINE, pipeline_command, ""),
    "tests.jsonl": (TEST, pipeline_command, ""),
    "metainfo.md": ("# caf\u00e9\n", other_command, "check"),
    "labels.json": ([LABEL], other_command, "judge calibrate --judge offline --labels"),
    "labels.jsonl": (LABEL, other_command, "judge calibrate --judge offline --labels"),
}


@pytest.mark.parametrize(("encoding", "message"), [("utf-16", UTF_16), ("latin-1", LATIN_1)])
@pytest.mark.parametrize("file", OTHER_FILES)
def test_every_format_says_which_encoding_a_file_has(place: Path, file: str, encoding: str, message: str) -> None:
    """Some add the line of the first wrong byte."""
    content, command, word = OTHER_FILES[file]
    # Rows over several lines have another reader than rows of one line each.
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, indent=1 if file == "objects.json" else None)
    )
    (place / file).write_text(text, encoding=encoding)
    ended = run_here(command(place, word, file), place)
    said = (ended.stdout + ended.stderr).splitlines()[0]
    assert ended.returncode == (1 if word == "check" else 2), said
    assert said.startswith(file)
    for part in message.split(", "):
        assert part in said


def test_a_failed_performance_check_is_labelled_so(place: Path) -> None:
    """A limit of tokens is left out where the endpoint reports none, and the report says so."""
    (place / "p.yaml").write_text(
        "id: p\nname: P\ninputs: [note]\nsteps:\n  - {id: say, template: '{{ note }}'}\n"
        "outputs: [{key: said, from: say}]\n"
    )
    limits = [{"max_seconds": 1e-9, "max_tokens": 5}, {"steps": {"say": {"max_seconds": 1e-9}}}]
    tests = [
        {"id": name, "inputs": {"note": "x"}, "performance_baseline": limit}
        for name, limit in zip("ab", limits, strict=True)
    ]
    write_docs(place / "t.jsonl", tests)
    ended = run_here(["pipeline", "p.yaml", "--testset", "t.jsonl", *MODEL], place)
    assert ended.returncode == 1
    assert "\n    max_seconds: " in ended.stdout
    assert "\n    say.max_seconds: " in ended.stdout
    shown = run_here(["show", "out", "--position", "0"], place).stdout
    assert "max_tokens was not checked in 1 test: the endpoint reports no tokens" in ended.stdout + ended.stderr
    assert "output: " not in ended.stdout + shown
    results = map(json.loads, (place / "out" / "p" / "results.jsonl").read_text().splitlines())
    checked = [[check["path"] for check in result["checks"]] for result in results]
    assert checked == [["max_seconds"], ["say.max_seconds"]]
