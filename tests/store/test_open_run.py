"""A run that stays open follows its journal as it grows."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.core.errors import DamagedRun, UsageError
from assay.core.types import Usage
from assay.journal.columns import RunColumns
from assay.store.open_run import OpenRun, RowSelection, unread_bytes

from support.runs import Made, passed, run_of


@contextmanager
def working_on(folder: Path) -> Iterator[None]:
    """Hold the lock of a run, as the process does that works on it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_progress_and_table_grow_with_the_journal(tmp_path: Path) -> None:
    made = Made(tmp_path / "run")
    for number in range(3):
        made.case(f"c{number}", [passed(number != 0)], seconds=1.0, usage=Usage(2, 1), calls=1)
    made.write_info(total=6)
    with working_on(made.folder):
        run = OpenRun(made.folder)
        progress = run.progress()
        assert (progress.state, progress.done, progress.total) == ("running", 3, 6)
        assert [(metric.name, metric.count) for metric in progress.metrics] == [("passed", 3)]
        assert progress.metrics[0].mean == pytest.approx(2 / 3)
        assert len(run.table()) == 3
        made.case("c3", status="infra_error")
        made.case("c4", [passed(None, status="invalid")])
        run._progress_time = run._table_time = 0.0
        progress = run.progress()
        assert (progress.done, progress.infra_error) == (5, 1)
        assert progress.share == pytest.approx(5 / 6)
        # The invalid score has no value, so it is not in the mean.
        assert progress.metrics[0].count == 3
        assert len(run.table()) == 5
        assert run.case(3).failed
    made.finish()
    assert run.state() == "finished"
    run.close()


def test_the_table_of_a_running_run_is_made_again_once_a_second_at_most(tmp_path: Path) -> None:
    made = Made(tmp_path / "run")
    made.case("a", [passed(1)])
    made.write_info(total=2)
    with working_on(made.folder):
        run = OpenRun(made.folder)
        first = run.table()
        made.case("b", [passed(1)])
        assert run.table() is first
    assert len(run.table()) == 2
    run.close()


def test_rows_are_selected_sorted_and_kept(tmp_path: Path) -> None:
    made = Made(tmp_path / "run")
    for key, value, seconds in (("a", True, 3.0), ("b", False, 1.0), ("c", False, 2.0)):
        made.case(key, [passed(value)], seconds=seconds)
    run = OpenRun(made.finish())
    failed = RowSelection(failed=True, sort="seconds", desc=True)
    assert run.rows(failed).tolist() == [2, 1]
    assert run.rows(failed) is run.rows(failed)
    assert run.rows(RowSelection(sort="passed", desc=True)).tolist() == [0, 1, 2]
    assert run.rows(RowSelection(slower=1.5)).tolist() == [0, 2]
    assert run.failed().tolist() == [False, True, True]
    with pytest.raises(UsageError, match="status"):
        run.rows(RowSelection(status="oh"))
    spread = run.distribution("seconds")
    assert spread is not None
    assert (spread.count, spread.median, spread.largest, sum(spread.counts)) == (3, 2.0, 3.0, 3)
    assert run.distribution("input") is None
    run.close()


def test_a_case_that_has_not_ended_and_a_damaged_run_are_refused(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {"a": True})
    run = OpenRun(folder)
    with pytest.raises(UsageError, match="has no case 7"):
        run.case(7)
    run.close()
    content = (folder / "records.jsonl").read_bytes()
    (folder / "records.jsonl").write_bytes(content.replace(b"text of a", b"text of b"))
    with pytest.raises(DamagedRun):
        OpenRun(folder).table()


def test_bytes_that_a_sidecar_covers_need_no_reading(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {"a": True, "b": False})
    size = sum((folder / name).stat().st_size for name in ("calls.jsonl", "records.jsonl", "scores.jsonl"))
    assert unread_bytes(folder) == size
    RunColumns.open(folder, "none").save(folder)
    assert (
        unread_bytes(folder)
        == (folder / "calls.jsonl").stat().st_size - RunColumns.open(folder, "none").positions["calls.jsonl"]
    )
