"""`assay check RUN` verifies the result files of the run that it is given, also of a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import assay
from assay.core.errors import DamagedRun
from assay.journal.integrity import refuse_lost_lines
from assay.journal.run_files import read_summary
from assay.store.check import RunCheck, check_run

from support.pipeline_project import COMMAND, PipelineProject, says, typed
from support.runs import run_of

PROMPTFOO = Path(__file__).parents[1] / "golden" / "promptfoo" / "out.json"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineProject:
    """A folder `lab` that is the working directory, with a pipeline in it."""
    folder = tmp_path / "lab"
    folder.mkdir()
    monkeypatch.chdir(folder)
    lab = PipelineProject(folder)
    lab.pipeline(says("s"))
    return lab


def check_of(output: Path) -> RunCheck:
    """Check the only run below an output folder."""
    (folder,) = (output / "assay").iterdir()
    return check_run(folder)


@pytest.mark.parametrize("output", ["out", "../out", "absolute"])
def test_a_copied_run_has_its_own_result_files(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """A changed file of the copy is damage of the copy only. A file elsewhere belongs to the original."""
    place = str(lab.folder / "out") if output == "absolute" else output
    out = Path(place).resolve()
    assert typed(capsys, *COMMAND[:-1], place, "--outfile", "table.csv").code == 0
    monkeypatch.chdir("/")  # names of result files are relative to the folder of the command, not to this one
    original = check_of(out)
    assert (original.problems, original.result_files) == ([], 4)
    copy = out.with_name("copy")
    shutil.copytree(out, copy)
    checked = check_of(copy)
    assert checked.result_files == 3
    (problem,) = checked.problems
    assert (problem.where, problem.level) == ("table.csv", "warning")
    assert "the run folder was copied or moved" in problem.message
    (results,) = copy.glob("assay/*/results.csv")
    results.write_text("tampered\n")
    checked = check_of(copy)
    assert (checked.damaged, checked.result_files) == (True, 2)
    assert "results.csv: the file was changed after the run" in str(checked.problems[0])
    assert check_of(out).problems == []


def test_a_copy_of_the_whole_project_is_checked_completely(
    lab: PipelineProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(capsys, *COMMAND, "--outfile", "table.csv").code == 0
    shutil.copytree(lab.folder, tmp_path / "copy")
    assert check_of(tmp_path / "copy" / "out").result_files == 4
    (tmp_path / "copy" / "table.csv").write_text("tampered\n")
    (problem,) = check_of(tmp_path / "copy" / "out").problems
    assert str(problem).startswith(str(tmp_path / "copy" / "table.csv: the file was changed after the run"))
    assert check_of(lab.folder / "out").problems == []


def test_stored_rows_that_are_gone_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a part of the run. Those of an imported run come back with another import."""
    monkeypatch.chdir(tmp_path)
    own = assay.evaluate([{"n": 1}], answer=str, output_dir="own", quiet=True).folder
    imported = assay.import_results(PROMPTFOO, "imported").folder
    for run, advice in ((own, "Run the program again"), (imported, "delete its folder and import")):
        assert check_run(run).problems == []
        (run / "rows.jsonl").unlink()
        (problem,) = check_run(run).problems
        assert (problem.level, Path(problem.where).name) == ("error", "rows.jsonl")
        assert advice in problem.message


def test_a_cut_file_of_a_suite_is_found(tmp_path: Path) -> None:
    """`pipeline.json` of a memory eval run has no checksum, but it is JSON."""
    run = run_of(tmp_path / "assay" / "run", {"a": True})
    (run / "pipeline.json").write_text('[{"files": {"pipeline_qa.jsonl": "4f"}}]')
    assert check_run(run).problems == []
    (run / "pipeline.json").write_text('[{"files": {"pipeline_qa.jsonl": "4')
    (problem,) = check_run(run).problems
    assert (problem.level, Path(problem.where).name) == ("error", "pipeline.json")
    assert "cut or changed" in problem.message


def test_a_link_is_replaced_by_its_target_before_anything_is_repeated(tmp_path: Path) -> None:
    """The target may be the only copy. Until the link is replaced, the command of the run stops."""
    run = run_of(tmp_path / "assay" / "run", {"a": True})
    calls, elsewhere = run / "calls.jsonl", tmp_path / "calls.jsonl"
    calls.rename(elsewhere)
    calls.symlink_to(elsewhere)

    checked = check_run(run)
    with pytest.raises(DamagedRun) as error:
        refuse_lost_lines(run, read_summary(run))
    assert checked.advice == ""
    assert checked.problems == list(error.value.problems)
    assert str(error.value).endswith("Replace it by a copy of its target")

    calls.unlink()
    elsewhere.rename(calls)
    assert check_run(run).problems == []
