"""Which run a command means: its two fingerprints, and the folder that continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.runner.identity import RunIdentity

from support.engine_run import EchoModel
from support.word_run import WordRun


def identity(run: WordRun, common: dict[str, Any] | None = None, **options: Any) -> RunIdentity:
    return run.runner(EchoModel(), common, **options).identity


@pytest.mark.parametrize(
    ("options", "common", "changed"),
    [
        ({"polite": True}, {}, "ask"),
        ({"words": ("one",)}, {}, "ask"),
        ({"strict": True}, {}, "score"),
        ({"quick": True}, {}, ""),
        ({}, {"seed": 7}, "ask"),
        ({}, {"gen_kwargs": {"temperature": 1}}, "ask"),
        ({}, {"concurrency": 3}, ""),
        ({}, {"max_calls": 9}, ""),
    ],
)
def test_an_option_changes_the_fingerprint_of_its_mark_and_no_other(
    tmp_path: Path, options: dict[str, Any], common: dict[str, Any], changed: str
) -> None:
    run = WordRun(tmp_path)
    plain, other = identity(run), identity(run, common, **options)
    assert (other.ask != plain.ask, other.score != plain.score) == (changed == "ask", changed == "score")


def test_another_endpoint_is_another_run(tmp_path: Path) -> None:
    class Elsewhere(EchoModel):
        endpoint = "elsewhere"

    run = WordRun(tmp_path)
    assert run.runner(EchoModel()).identity.ask != run.runner(Elsewhere()).identity.ask


def test_the_newest_run_that_asks_the_same_continues(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    assert identity(run).find_run().folder is None
    first = run.start(EchoModel()).folder
    assert identity(run).find_run().folder == first
    newest = run.start(EchoModel(), {"fresh": True}).folder
    assert newest != first
    assert identity(run).find_run().folder == newest
    assert identity(run, strict=True).find_run().folder == newest
    assert identity(run, polite=True).find_run().folder is None
    assert identity(run, {"fresh": True}).find_run().folder is None


def test_a_run_that_is_named_continues_instead_of_the_newest(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel()).folder
    run.start(EchoModel(), {"fresh": True})
    runner = run.runner(EchoModel())
    runner.continue_in(first)
    assert runner.identity.find_run().folder == first


@pytest.mark.parametrize(
    ("there", "wanted", "message"),
    [
        ("", "1/2", "has the whole run"),
        ("1/2", "", "Pass --shard 1/2 to continue it"),
        ("1/2", "2/2", "Each shard needs an output folder of its own"),
    ],
)
def test_another_shard_of_the_same_run_is_refused(tmp_path: Path, there: str, wanted: str, message: str) -> None:
    run = WordRun(tmp_path)
    run.start(EchoModel(), {"shard": there})
    with pytest.raises(UsageError, match=message):
        identity(run, {"shard": wanted}).find_run()


def test_an_output_folder_that_is_taken_names_its_newest_run(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    run.start(EchoModel(), quick=True)
    newest = run.start(EchoModel(), {"fresh": True}, polite=True).folder
    runner = run.runner(EchoModel(), words=("three",))
    runner.suite.exclusive_output = True
    with pytest.raises(UsageError, match=rf"different settings \(words, polite\): {newest}\."):
        runner.identity.check_output_is_free(None)
