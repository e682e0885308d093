"""One start of a run: what it asks, what it repairs, and what it leaves if it cannot go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.core.errors import ModelError, ModelRefused, StopRun
from assay.core.protocols import Context, ScorerInput
from assay.core.roles import Role
from assay.core.types import Failure, Response
from assay.journal.journal import Journal
from assay.journal.run_files import read_summary, write_summary
from assay.runner.results import load

from support.engine_run import EchoModel, FunctionScorer
from support.word_run import WordRun


class Failing(EchoModel):
    """Fails with a kind for one word."""

    def __init__(self, word: str, kind: str) -> None:
        super().__init__()
        self._word = word
        self._kind = kind

    async def reply(self, prompt: str) -> Response:
        if prompt == self._word:
            raise ModelError(Failure(self._kind, "no"))
        return await super().reply(prompt)


def test_the_next_start_asks_only_what_has_no_answer(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(Failing("two", "server_error"))
    assert (first.exit_code, first.summary.state, first.summary.infra_error) == (3, "incomplete", 1)
    model = EchoModel()
    second = run.start(model)
    assert (model.prompts, second.folder) == (["two"], first.folder)
    assert (second.exit_code, second.summary.state, run.result_file) == (0, "finished", "2 of 2\n")


def test_other_scores_are_computed_from_the_stored_replies(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel())
    model = EchoModel()
    second = run.start(model, strict=True)
    assert (model.prompts, second.folder, run.result_file) == ([], first.folder, "0 of 2\n")


def test_a_stopped_start_says_so_and_the_next_one_goes_on(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel(), {"max_calls": 1, "concurrency": 1})
    assert (first.exit_code, first.summary.state, first.reason) == (
        3,
        "stopped",
        "stopped after 1 calls, as --max-calls says",
    )
    model = EchoModel()
    assert run.start(model).summary.state == "finished"
    assert model.prompts == ["two"]


def test_a_new_run_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    run = WordRun(tmp_path / "output")
    with pytest.raises(ModelRefused):
        run.start(Failing("one", "auth"), {"concurrency": 1})
    assert not run.output.exists()


def test_a_run_with_replies_is_kept_when_it_is_refused(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    folder = run.start(EchoModel(), {"max_calls": 1, "concurrency": 1}).folder
    with pytest.raises(ModelRefused):
        run.start(Failing("two", "auth"))
    assert run.start(model := EchoModel()).folder == folder
    assert model.prompts == ["two"]


def test_a_changed_line_costs_its_case_and_is_told(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    folder = run.start(EchoModel()).folder
    calls = folder / "calls.jsonl"
    calls.write_bytes(calls.read_bytes().replace(b'"two!"', b'"ten!"'))
    records = folder / "records.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"two!"', b'"ten!"'))
    model = EchoModel()
    again = run.start(model)
    assert model.prompts == ["two"]
    assert (again.folder, again.summary.state, run.result_file) == (folder, "finished", "2 of 2\n")
    assert any("calls.jsonl" in notice for notice in run.notices)


def test_a_damaged_run_whose_lost_case_cannot_be_asked_is_not_shown_as_finished(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    folder = run.start(EchoModel()).folder
    for damaged in ("calls.jsonl", "records.jsonl"):
        lines = (folder / damaged).read_bytes()
        (folder / damaged).write_bytes(lines.replace(b'"two!"', b'"ten!"'))
    stopped = run.start(Failing("two", "no_credit"))
    assert (stopped.exit_code, stopped.summary.state) == (3, "stopped")
    model = EchoModel()
    assert run.start(model).summary.state == "finished"
    assert model.prompts == ["two"]


def test_lines_that_are_missing_are_told_and_asked_again(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    folder = run.start(EchoModel()).folder
    for name in ("calls.jsonl", "records.jsonl"):
        lines = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(lines[:1]))
    model = EchoModel()
    again = run.start(model)
    assert (sorted(model.prompts), again.summary.state) == (["one", "two"], "finished")
    assert any("lines are missing" in notice and "goes on with the lines" in notice for notice in run.notices)


def test_a_scoring_that_finds_a_changed_line_does_not_give_the_earlier_result_back(tmp_path: Path) -> None:
    """The line may be one of the earlier scores."""
    run = WordRun(tmp_path)
    folder = run.start(EchoModel()).folder
    scores = folder / "scores.jsonl"
    scores.write_bytes(scores.read_bytes().replace(b'"value":1.0', b'"value":0.5', 1))
    suite = run.suite(strict=True)
    suite.broken = OSError(28, "No space left on device", "words.txt")
    asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())
    assert any("scores.jsonl" in notice for notice in run.notices)
    left = read_summary(folder)
    assert left is not None
    assert left.state == "stopped"


def test_the_seconds_of_a_run_are_those_of_all_its_starts(tmp_path: Path) -> None:
    run = WordRun(tmp_path)
    first = run.start(EchoModel(), {"max_calls": 1, "concurrency": 1})
    write_summary(first.folder, replace(first.summary, seconds=1000.0))
    assert run.start(EchoModel()).summary.seconds > 1000


def test_the_error_of_a_scorer_is_told_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-words-1234567890abcdef"
    monkeypatch.setenv("WORDS_KEY", secret)

    async def fail(given: ScorerInput, ctx: Context) -> float:
        raise ValueError(f"401 for {secret}")

    run = WordRun(tmp_path)
    suite = run.suite()
    suite.roles = {"main": Role("test/main", key="WORDS_KEY")}
    suite.scorers = (FunctionScorer(fail),)
    asyncio.run(run.runner_of(suite, EchoModel()).start_or_show())
    (first, *_) = run.notices
    assert "could not be scored: ValueError: 401 for [redacted]" in first
    assert secret not in first


def test_a_start_that_fails_after_a_repair_leaves_no_finished_run_without_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged line is gone by then. The next start asks for its case."""
    run = WordRun(tmp_path)
    records = run.start(EchoModel()).folder / "records.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"two"', b'"TWO"', 1))

    class FullDisk(Journal):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.close()
            raise StopRun("no room is left")

    with monkeypatch.context() as patch:
        patch.setattr("assay.runner.start.Journal", FullDisk)
        with pytest.raises(StopRun, match="no room"):
            run.start(EchoModel())
    assert run.start(EchoModel()).summary.ok == 2
    assert len([case for case in load(records.parent).cases() if case.status == "ok"]) == 2


def test_a_start_that_fails_before_a_repair_leaves_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = WordRun(tmp_path)
    folder = run.start(EchoModel()).folder

    def refuse(*_: object, **__: object) -> None:
        raise StopRun("no room is left")

    with monkeypatch.context() as patch:
        patch.setattr("assay.runner.start.Journal", refuse)
        with pytest.raises(StopRun, match="no room"):
            run.start(EchoModel(), strict=True)
    summary = read_summary(folder)
    assert summary is not None
    assert (summary.state, summary.scoring_again) == ("finished", False)
