"""What `assay rescore` and `assay merge` say when the files of a run are not found."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.journal.run_files import RunInfo
from assay.runner.rescore import hint_at_start_folder
from assay.usercode.named_code import CodeNotNamed


def info(output_dir: str = "out") -> RunInfo:
    """The settings of a run that was started with `--output-dir`."""
    return RunInfo(
        suite="task",
        ask="0123456789abcdef",
        started=0.0,
        version="0.1.0",
        total=2,
        command=[],
        spec={"output_dir": output_dir},
        parts={},
        facts={},
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that was started in `tmp_path` with `--output-dir out`."""
    folder = tmp_path / "out" / "assay" / "a-run"
    folder.mkdir(parents=True)
    return folder


def message(run: Path, who_was: str, error: UsageError, output_dir: str = "out") -> str:
    """The error that users see if `error` is raised while the run is opened."""
    with pytest.raises(UsageError) as raised, hint_at_start_folder(run, info(output_dir), who_was):
        raise error
    return str(raised.value)


def test_an_error_in_another_folder_says_where_the_run_was_started(run: Path, tmp_path: Path) -> None:
    for who_was in ("the run was", "the shards were"):
        assert message(run, who_was, UsageError("there is no 't.yaml'")) == (
            f"there is no 't.yaml'\n{who_was} started in another folder. Change to {tmp_path} and repeat this command"
        )


def test_an_error_where_the_run_was_started_stays_as_it_is(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message(run, "the run was", UsageError("there is no 't.yaml'")) == "there is no 't.yaml'"


def test_an_error_of_a_run_that_was_moved_stays_as_it_is(run: Path) -> None:
    """Its output folder has another name now, so nobody knows where it was started."""
    assert message(run, "the run was", UsageError("there is no 't.yaml'"), "results") == "there is no 't.yaml'"


def test_code_that_was_not_named_is_not_a_matter_of_folders(run: Path) -> None:
    assert "another folder" not in message(run, "the run was", CodeNotNamed("quiz.py"))
