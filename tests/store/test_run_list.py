"""The list of runs: filters, and the options by which similar runs are told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.imported import ImportedFile, ImportOrigin
from assay.core.report import Entry, Metric, Report
from assay.journal.folder import lock_folder
from assay.journal.run_files import read_info, read_summary, write_info, write_summary
from assay.store.notes import change_notes
from assay.store.run_list import ListedRun, RunFilter, list_runs, unique_starts

from support.runs import Made, passed

REPORT = Report(entries=[Entry(name="sums", metrics=[Metric(name="acc", filter="strict", value=0.5, denominator=2)])])


def make(root: Path, name: str, **changes: Any) -> Path:
    """A finished run of two cases with this name. `changes` are fields of run.json, and `exit_code` and `state`."""
    run = Made(root / "assay" / name, suite=changes.pop("suite", "task"), model=changes.pop("model", "openai/small"))
    run.case("k1", [passed(1)])
    run.case("k2", [passed(0)])
    state, exit_code = changes.pop("state", "finished"), changes.pop("exit_code", 0)
    folder = run.finish(state, REPORT)
    info, summary = read_info(folder), read_summary(folder)
    assert summary is not None
    spec = {"model": info.spec["model"], **changes.pop("spec", {})}
    write_info(folder, msgspec.structs.replace(info, spec=spec, **changes))
    write_summary(folder, msgspec.structs.replace(summary, exit_code=exit_code))
    return folder


def names(root: Path, **chosen: Any) -> list[str]:
    """The names of the runs that a filter lets through."""
    return [run.name for run in list_runs(root, RunFilter(**chosen))]


def only(root: Path) -> ListedRun:
    """The only run below a folder."""
    (run,) = list_runs(root, RunFilter())
    return run


def test_a_run_is_listed_with_its_state_progress_and_score(tmp_path: Path) -> None:
    folder = make(tmp_path, "r1")
    change_notes(folder, text="mind the seed", add_tags=["paper"])
    run = only(tmp_path)
    assert (run.state, run.done, run.total, run.exit_code) == ("finished", 2, 2, 0)
    assert run.headline == "sums acc,strict 0.5000"
    assert (run.tags, [note.text for note in run.notes]) == (["paper"], ["mind the seed"])


def test_cases_of_a_live_run_are_counted_in_the_journal(tmp_path: Path) -> None:
    """Its summary is that of an earlier start, if it has one."""
    lock_folder(make(tmp_path, "r1"))
    run = only(tmp_path)
    assert (run.state, run.done, run.exit_code) == ("running", 2, None)


def test_filters_choose_runs_and_are_combined(tmp_path: Path) -> None:
    first = make(tmp_path, "r1", started=1000.0, command=["assay", "task", "sums.yaml"])
    second = make(tmp_path, "r2", started=2000.0, model="openai/LARGE", suite="memory-test", exit_code=3)
    make(tmp_path, "r3", started=3000.0, state="stopped", suite="/somewhere/quiz.py:Quiz")
    change_notes(first, text="The Shorter prompt", add_tags=["base", "paper"])
    change_notes(second, add_tags=["base"])
    for chosen, expected in (
        ({}, ["r1", "r2", "r3"]),
        ({"suites": ["task"]}, ["r1"]),
        ({"suites": ["memory-test", "/somewhere/quiz.py:Quiz"]}, ["r2", "r3"]),
        ({"model": "large"}, ["r2"]),
        ({"states": ["stopped"]}, ["r3"]),
        ({"since": 2000.0}, ["r2", "r3"]),
        ({"tags": ["base"]}, ["r1", "r2"]),
        ({"tags": ["base", "paper"]}, ["r1"]),
        ({"failed": True}, ["r2", "r3"]),
        ({"search": "shorter PROMPT"}, ["r1"]),
        ({"search": "sums.yaml"}, ["r1"]),
        ({"search": "PAPER"}, ["r1"]),
        ({"search": "small", "since": 2000.0}, ["r3"]),
        ({"search": "nowhere"}, []),
    ):
        assert names(tmp_path, **chosen) == expected, chosen


def test_runs_of_one_suite_and_model_are_told_apart_by_their_options(tmp_path: Path) -> None:
    """Options that change no result are not told, nor those that are equal. A path is told by its file."""
    common = {"concurrency": 4, "seed": 7, "output_dir": "a"}
    make(
        tmp_path,
        "r1",
        ask="1",
        spec={**common, "limit": None, "options": {"tasks": ["x/sums.yaml"], "shots": None}},
    )
    make(
        tmp_path,
        "r2",
        ask="2",
        spec={
            **common,
            "output_dir": "b",
            "limit": 5.0,
            "options": {"tasks": ["x/more.yaml"], "shots": None},
        },
    )
    make(
        tmp_path,
        "r3",
        ask="3",
        spec={**common, "limit": 5.0, "options": {"tasks": ["x/sums.yaml"], "shots": 2}},
    )
    make(tmp_path, "r4", ask="4", model="other/model", spec={**common, "limit": 9.0})
    assert {run.name: run.differs for run in list_runs(tmp_path, RunFilter())} == {
        "r1": {"limit": None, "tasks": "sums.yaml", "shots": None},
        "r2": {"limit": "5", "tasks": "more.yaml", "shots": None},
        "r3": {"limit": "5", "tasks": "sums.yaml", "shots": "2"},
        "r4": {},
    }
    # Only runs that are listed are compared, and the caller may know options that change nothing.
    runs = list_runs(tmp_path, RunFilter(search="r1"))
    runs += list_runs(tmp_path, RunFilter(model="small"), ignored_options=lambda suite: ("limit", "shots", "tasks"))
    assert [run.differs for run in runs] == [{}] * 4


def test_runs_with_equal_options_are_told_apart_by_the_content_of_their_files(tmp_path: Path) -> None:
    """A long text, such as a prompt, is told by its hash."""
    plan = {"sums": {"shots": 0, "prompt": "Q: {{question}}"}}
    edited = {"sums": {"shots": 0, "prompt": "Answer in one word, as short as you can: {{question}}"}}
    make(tmp_path, "r1", ask="1", parts={"ask": {"plan": plan, "data": ["h1"]}})
    make(tmp_path, "r2", ask="2", parts={"ask": {"plan": edited, "data": ["h1"]}})
    make(tmp_path, "r3", ask="2", parts={"ask": {"plan": edited, "data": ["h1"]}})
    first, second, third = (run.differs for run in list_runs(tmp_path, RunFilter()))
    assert first == {"sums.prompt": "Q: {{question}}"}
    assert second == third
    assert len(second["sums.prompt"] or "") == 6


def test_imported_runs_are_told_apart_by_format_and_file(tmp_path: Path) -> None:
    """They have no options, so a native run of the same model is not compared with them."""
    for name, file in (("r1", "logs/a.eval"), ("r2", "logs/b.eval")):
        origin = ImportOrigin(
            format="inspect", files=[ImportedFile(path=file, sha256=name, bytes=1)], producer="", missing=[]
        )
        make(tmp_path, name, ask=name, imported=origin)
    make(tmp_path, "r3", ask="3", spec={"limit": 5.0, "options": {"shots": 2}})
    first, second, native = (run.differs for run in list_runs(tmp_path, RunFilter()))
    assert first == {"imported": "inspect", "file": "a.eval"}
    assert second == {"imported": "inspect", "file": "b.eval"}
    assert native == {}


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    make(tmp_path / "b", "r1")
    make(tmp_path / "a", "r1")
    make(tmp_path / "a", "r2")
    told = [run.differs.get("folder") for run in list_runs(tmp_path, RunFilter())]
    assert told == [str(tmp_path / "a" / "assay"), str(tmp_path / "b" / "assay"), None]


def test_damaged_runs_are_listed_and_what_is_wrong_is_told(tmp_path: Path) -> None:
    make(tmp_path, "r1")
    bad = make(tmp_path, "r2")
    (bad / "run.json").write_text("{}")
    broken_notes = make(tmp_path, "r3")
    (broken_notes / "notes.json").write_text("no")
    warnings: list[str] = []
    runs = list_runs(tmp_path, RunFilter(), warn=warnings.append)
    assert [(run.name, run.state) for run in runs] == [
        ("r1", "finished"),
        ("r2", "damaged"),
        ("r3", "finished"),
    ]
    assert (runs[1].total, runs[1].problem in warnings) == (None, True)
    assert any("notes.json" in warning for warning in warnings)
    assert list_runs(tmp_path, RunFilter(states=["finished"], search="r1"), warn=warnings.append) == runs[:1]
    assert len(warnings) == 3  # of a run that is not listed, only its notes are complained about


@pytest.mark.parametrize(
    ("folders", "starts"),
    [
        (["2026-01-28T03-22-54-task-0a"], ["2026-01-28T03-22-54"]),
        (
            ["2026-01-28T03-22-54-task-0a", "2026-01-28T03-22-55-task-0a"],
            ["2026-01-28T03-22-54", "2026-01-28T03-22-55"],
        ),
        (
            ["2026-01-28T03-22-54-hop-0a", "2026-01-28T03-22-54-task-0a"],
            ["2026-01-28T03-22-54-hop", "2026-01-28T03-22-54-task"],
        ),
        (["a", "a-b"], ["a", "a-b"]),
    ],
)
def test_the_beginning_of_a_name_is_as_long_as_needed(folders: list[str], starts: list[str]) -> None:
    assert list(unique_starts(folders).values()) == starts
