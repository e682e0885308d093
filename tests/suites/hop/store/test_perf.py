"""Durations from the observer's records, wherever the first step stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.suites.hop.store import BaseDataStore


def observed(folder: Path, *recs: dict[str, Any]) -> dict[str, Any]:
    text = "".join(json.dumps(rec) + "\n" for rec in recs)
    (folder / "observer.jsonl").write_text(text, encoding="utf-8")
    return BaseDataStore(folder).get_perf_summary()


def start(run: int | str) -> dict[str, Any]:
    return {"type": "run_start", "run_id": run, "timestamp": 1.0, "hoplet": "h", "input": {"op": "none"}}


def end(run: int | str, duration: Any = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "type": "run_end",
        "run_id": run,
        "timestamp": "2026-02-19T10:30:00",
        "duration": duration,
        **more,
    }


def step(op: str, duration: Any = 1.0, status: str = "OK", **more: Any) -> dict[str, Any]:
    return {"type": "step", "run_id": 1, "step": 1, "op": op, "status": status, "duration": duration, **more}


def test_no_records_are_no_runs(tmp_path: Path) -> None:
    expected = {"total_runs": 0, "avg_duration": None, "p50": None, "p95": None}
    assert observed(tmp_path) == expected | {"unfinished": 0, "without_duration": 0}


def test_without_steps_there_are_no_operators(tmp_path: Path) -> None:
    """p50 and p95 are linear between ranks; a start without an end is unfinished."""
    runs = [end(n, duration) for n, duration in enumerate([4.0, 1, 2.0, 100.0])]
    assert observed(tmp_path, start(0), start(9), *runs) == {
        "total_runs": 4,
        "avg_duration": 26.75,
        "p50": 3.0,
        "p95": pytest.approx(85.6),
        "unfinished": 1,
        "without_duration": 0,
    }


def test_a_duration_that_is_none_is_left_out_and_counted(tmp_path: Path) -> None:
    odd = [None, -1.0, "2.0", True]
    missing = {"type": "run_end", "run_id": 7, "status": "OK"}
    summary = observed(tmp_path, end(0, 0.5), missing, *(end(n, one) for n, one in enumerate(odd)))
    assert (summary["total_runs"], summary["avg_duration"], summary["p95"]) == (6, 0.5, 0.5)
    assert summary["without_duration"] == 5


def test_operators_have_their_numbers(tmp_path: Path) -> None:
    """Retries are those that were told."""
    steps = [
        step("hop_get", 1.0, retry_count=2),
        step("hop_get", 2.0, "FAIL"),
        step("hop_get", -1, retry_count=1),
        step("hop_judge", None, "UNCERTAIN"),
    ]
    assert observed(tmp_path, start(1), *steps, end(1))["operator_stats"] == [
        {"op": "hop_get", "calls": 3, "success_rate": 0.6667, "avg_duration": 1.5, "avg_retries": 1.5},
        {"op": "hop_judge", "calls": 1, "success_rate": 0.0, "avg_duration": None, "avg_retries": None},
    ]


def test_a_late_first_step_counts_in_full(tmp_path: Path) -> None:
    """After 50,000 lines without `op` the operators are there all the same."""
    others = [record for n in range(25_000) for record in (start(n), end(n))]
    summary = observed(tmp_path, *others, step("hop_get"), step("hop_get", 3.0))
    assert summary["total_runs"] == 25_000
    assert summary["operator_stats"] == [
        {"op": "hop_get", "calls": 2, "success_rate": 1.0, "avg_duration": 2.0, "avg_retries": None}
    ]


def test_a_torn_last_line_costs_that_line(tmp_path: Path) -> None:
    lines = json.dumps(end(1)) + "\n" + json.dumps(end(2))[:-5]
    (tmp_path / "observer.jsonl").write_text(lines, encoding="utf-8")
    store = BaseDataStore(tmp_path)
    assert (store.get_perf_summary()["total_runs"], store.bad_lines, store.load_results()) == (1, 1, 0)
