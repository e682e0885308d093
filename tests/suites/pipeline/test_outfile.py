"""`--outfile`: which files it may replace, and that a wrong one is refused before the first call."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.pipeline_project import COMMAND, PipelineProject, says, typed

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def files(lab: PipelineProject) -> Path:
    """A pipeline of one step that runs with COMMAND, and a folder `folder`."""
    lab.pipeline(says("s"))
    lab.write("folder/own.csv", "name,price\napple,3\n")
    return lab.folder


@pytest.mark.parametrize("name", ["tests.jsonl", "p.yaml", "model.py", "folder/own.csv"])
def test_an_input_or_any_other_file_is_never_overwritten(files: Path, capsys: Captured, name: str) -> None:
    before = (files / name).read_bytes()
    done = typed(capsys, *COMMAND, "--outfile", name)
    assert (done.code, (files / name).read_bytes()) == (2, before)
    assert f"--outfile {name} exists and is not a CSV file of earlier results" in done.err
    assert not (files / "out").exists()


def test_an_earlier_file_of_results_is_replaced_and_an_empty_one_filled(files: Path, capsys: Captured) -> None:
    prompt_lab = "\ufeffid,variant,overall_score,must_have_pass\nold,baseline,9,1\n"
    (files / "eval.csv").write_text(prompt_lab, encoding="utf-8")
    (files / "compared.csv").write_text("id,must_have__a,must_have__b\nold,1,0\n")
    (files / "empty.csv").touch()
    for name in ("own.csv", "eval.csv", "compared.csv", "empty.csv", "own.csv"):
        assert typed(capsys, *COMMAND, "--outfile", name).code == 0
        header, row = (files / name).read_text().splitlines()
        assert header.startswith("id,variant,overall_score,must_have_pass,")
        assert row.startswith("t,baseline,")


def test_a_socket_a_device_or_a_pipe_is_no_outfile(files: Path, capsys: Captured) -> None:
    """A run would change its permissions. A socket stands for all: a device belongs to the whole machine."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("own.sock")
        done = typed(capsys, *COMMAND, "--outfile", "own.sock")
    assert (done.code, "--outfile own.sock is no regular file" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.py/x.csv", "--outfile model.py/x.csv cannot be written: model.py is no folder"),
        ("model.py/deep/x.csv", "model.py is no folder"),
        ("/proc/none/x.csv", "--outfile /proc/none/x.csv cannot be written: "),
        ("x" * 300, "cannot be written: File name too long"),
        ("folder", "--outfile folder is a folder"),
    ],
)
def test_a_place_that_cannot_exist_is_refused_before_the_first_call(
    files: Path, capsys: Captured, name: str, message: str
) -> None:
    done = typed(capsys, *COMMAND, "--outfile", name)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (files / "out").exists()


def test_folders_of_the_outfile_are_created_with_it(files: Path, capsys: Captured) -> None:
    assert typed(capsys, *COMMAND, "--dry-run", "--outfile", "a/b/x.csv").code == 0
    assert not (files / "a").exists()
    assert typed(capsys, *COMMAND, "--outfile", "a/b/x.csv").code == 0
    assert (files / "a" / "b" / "x.csv").is_file()


def test_a_folder_in_place_of_a_result_file_is_to_be_moved_away(files: Path, capsys: Captured) -> None:
    """Room on the disk would not help."""
    (files / "out" / "p" / "results.jsonl").mkdir(parents=True)
    done = typed(capsys, *COMMAND)
    assert done.code == 3
    assert "cannot write out/p/results.jsonl: Is a directory. All replies so far are saved. " in done.err
    assert "Move away what is in its place and run the same command again" in done.err


def test_rescore_does_not_write_the_file_that_the_run_names(files: Path, capsys: Captured) -> None:
    """The folder may be somebody else's. The message has the command that writes the file, and it does."""
    assert typed(capsys, *COMMAND, "--outfile", "own.csv").code == 0
    own = files / "own.csv"
    content = own.read_bytes()
    own.unlink()
    done = typed(capsys, "rescore", "out")
    assert (done.code, own.exists()) == (0, False)
    assert "not written: own.csv (--outfile)" in done.out
    assert "type the run's own command: assay" in done.out
    assert "--outfile own.csv" in done.out
    assert typed(capsys, *COMMAND, "--outfile", "own.csv").code == 0
    assert own.read_bytes() == content
