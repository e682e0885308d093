"""Whose replies a run takes with `--reuse`: those of a run folder, or of the only other run in an output folder."""

from __future__ import annotations

from pathlib import Path

from support.engine_run import EchoModel
from support.word_run import WordRun


def test_the_run_of_an_output_folder_is_reused_also_by_a_run_that_asks_the_same(tmp_path: Path) -> None:
    WordRun(tmp_path / "first").start(EchoModel())
    model = EchoModel()
    again = WordRun(tmp_path / "second").start(model, {"reuse": str(tmp_path / "first")})
    assert (again.summary.state, model.prompts) == ("finished", [])


def test_a_run_is_not_its_own_source(tmp_path: Path) -> None:
    """Its second start finds the other run of its output folder, not two runs."""
    run = WordRun(tmp_path)
    run.start(EchoModel(), words=["one"])
    model, reuse = EchoModel(), {"reuse": str(tmp_path)}
    first = run.start(model, reuse, words=["one", "two"])
    again = run.start(model, reuse, words=["one", "two"])
    assert (again.folder, len(model.prompts)) == (first.folder, 1)
