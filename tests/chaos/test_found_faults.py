"""Faults of assay that chaos has found, each in its smallest form."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from array import array
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import StopRun
from assay.core.judges import Calibration
from assay.journal import folder as folders, journal, sidecar
from assay.journal.disk_reserve import DiskReserve
from assay.journal.journal import Journal
from assay.journal.run_files import RunInfo, Summary, copy_to_newest
from assay.journal.spending import CallCounts
from assay.store.calibrations import SHIPPED, write_calibrations
from assay.store.cases import counted_scorers
from assay.suites.memory.test.sink import output_folders

from chaos.process import Ended, Job, start
from chaos.write_points import Disturbance


class _Head(msgspec.Struct):
    name: str = "head"


def _create(home: Path) -> int:
    values: dict[str, Any] = {key: {} for key in ("spec", "parts", "facts")}
    info = RunInfo(suite="task", ask="a1", started=0.0, version="1", total=1, command=[], **values)
    with folders.selection_lock(home):
        folders.create_run(home, info).close()
    return 0


def _created(home: Path, disturbance: Disturbance) -> Ended:
    return start(Job(home.parent, lambda: _create(home), home.parent.parent / "logs"), disturbance).end()


def test_a_run_that_is_killed_while_it_is_created_leaves_no_folder_behind(tmp_path: Path) -> None:
    home = tmp_path / "out" / "assay"
    for number in count(1):
        shutil.rmtree(home.parent, ignore_errors=True)
        home.parent.mkdir()
        if not _created(home, Disturbance("kill", number)).killed:
            break
        assert len(list(home.glob("*-task-a1"))) <= 1
        _create(home)
        assert [path for path in home.iterdir() if not folders.is_run_folder(path)] == []
    assert number > 8


def test_a_run_that_cannot_be_created_leaves_no_folder_behind(tmp_path: Path) -> None:
    home = tmp_path / "out" / "assay"
    for number in range(2, 12):
        shutil.rmtree(home.parent, ignore_errors=True)
        home.parent.mkdir()
        ended = _created(home, Disturbance("error", number, errno=errno.ENOSPC, lasts=True))
        assert "StopRun: cannot write" in ended.err or ended.code == 0
        assert all(folders.is_run_folder(path) for path in home.iterdir())


def _dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_an_index_removes_what_a_killed_process_left_of_it(tmp_path: Path) -> None:
    leftover = tmp_path / f".index.bin.{_dead_process()}.tmp"
    leftover.touch()
    sidecar.save(tmp_path / "index.bin", _Head(), [array("q", [1])])
    assert [path.name for path in tmp_path.iterdir()] == ["index.bin"]


def test_an_index_that_cannot_be_removed_stops_nothing(tmp_path: Path) -> None:
    """The disk becomes read-only after the temporary file was opened."""

    def save() -> int:
        sidecar.save(tmp_path / "stage" / "index.bin", _Head(), [array("q", [1])])
        return 0

    (tmp_path / "stage").mkdir()
    read_only = Disturbance("error", 2, errno=errno.EROFS, lasts=True)
    ended = start(Job(tmp_path / "stage", save, tmp_path / "logs"), read_only).end()
    assert (ended.code, ended.err) == (0, "")
    assert ended.reached


def test_an_index_that_is_interrupted_leaves_no_half(tmp_path: Path) -> None:
    def save() -> int:
        with suppress(KeyboardInterrupt):
            sidecar.save(tmp_path / "stage" / "index.bin", _Head(), [array("q", [1])])
        return 0

    (tmp_path / "stage").mkdir()
    ctrl_c = Disturbance("signal", 2, errno=signal.SIGINT)
    ended = start(Job(tmp_path / "stage", save, tmp_path / "logs"), ctrl_c).end()
    assert (ended.code, ended.err) == (0, "")
    assert ended.reached
    assert list((tmp_path / "stage").iterdir()) == []


def test_the_index_is_saved_before_the_summary_says_that_the_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run is not opened again, so nobody would remove the half of an index that a kill left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(journal, "MIN_LINES", 1)
    names: list[str] = []
    replace = os.replace

    def noted(source: Path, target: Path) -> None:
        names.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    run = assay.evaluate([{"n": 1}], answer=str, output_dir="out", quiet=True)
    assert run.summary.state == "finished"
    assert names[-1] == "summary.json"
    assert names.count("index.bin") >= 1


def test_a_journal_that_cannot_be_opened_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StopRun, match="cannot write .*calls.jsonl: No such file or directory"):
        Journal(tmp_path / "gone", [], [], "id")


def test_the_reserve_that_a_kill_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / ".room").touch()
    DiskReserve(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_a_calibration_that_cannot_be_written_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / "calibration.json").mkdir()
    calibrations = msgspec.json.decode((SHIPPED / "offline.json").read_bytes(), type=list[Calibration])
    with pytest.raises(OSError, match="calibration.json"):
        write_calibrations(tmp_path / "calibration.json", calibrations)
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.json"]


def test_a_memory_test_takes_its_folder_again_after_a_kill_in_its_first_file(tmp_path: Path) -> None:
    (first,) = output_folders(tmp_path, ["bm25"], "plain", 0.0, "run").values()
    (first / ".summary.json.tmp").write_text("{")
    (second,) = output_folders(tmp_path, ["bm25"], "plain", 0.0, "run").values()
    assert second == first


def test_two_processes_that_show_a_finished_run_copy_its_files_side_by_side(tmp_path: Path) -> None:
    """A second process copies the summary while the first one waits in the middle of its copy."""
    run = tmp_path / "stage" / "run"
    run.mkdir(parents=True)
    (run / "summary.json").write_text("{}")
    newest = tmp_path / "stage" / "newest"
    values: dict[str, Any] = dict.fromkeys(("total", "ok", "subject_error", "infra_error", "exit_code"), 0)
    values |= {"spent": CallCounts(), "this_start": {}, "files": [], "scorers": [], "seconds": 0.0}
    summary = Summary(state="finished", score="s", newest=str(newest), **values)

    def copy() -> int:
        copy_to_newest(run, summary)
        return 0

    job = Job(tmp_path / "stage", copy, tmp_path / "logs")
    (paused, told), (waits, resume) = os.pipe(), os.pipe()
    first = start(job, Disturbance("pause", 4, pipe=(told, waits)))
    assert first.wait(or_readable=paused) is None
    assert start(job._replace(logs=tmp_path / "other")).end().code == 0
    os.write(resume, b"g")
    ended = first.end()
    assert (ended.code, ended.err) == (0, "")
    assert [path.name for path in newest.iterdir()] == ["summary.json"]


def test_a_changed_byte_in_the_scores_of_an_unfinished_run_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_bytes(b'{"type":"score","scorer":"a\x8e@1"}\n{"scorer":"b@2"}\n')
    assert counted_scorers(tmp_path, None) == ["b@2"]
