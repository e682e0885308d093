"""The observer's log: its records, many writers at once, files that were cut off, folders nobody may write to."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.suites.hop.trace import HopletObserver, TraceStep

from support.hop_batch import Batch, numbered, results_of

STEP = TraceStep(1, "hop_get", "extract", "UNCERTAIN", 0.25, 1.0, 2, {"a": "é"})


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_run_that_returns(tmp_path: Path) -> None:
    """All that the document asks of each record; the run's status is that of its last step."""
    observer = HopletObserver(tmp_path / "TestCases" / "observer.jsonl", "FactCheck")
    trace = observer.run({"question": "什么"})
    trace.step(STEP)
    trace.end({"answer": 1})
    observer.close()
    start, step, end = records(observer.path)
    assert list(start) == ["type", "run_id", "timestamp", "hoplet", "input"]
    assert (start["type"], start["hoplet"], start["input"]) == (
        "run_start",
        "FactCheck",
        {"question": "什么"},
    )
    assert {key: step[key] for key in step if key not in ("run_id", "timestamp")} == {
        "type": "step",
        "step": 1,
        "op": "hop_get",
        "task": "extract",
        "status": "UNCERTAIN",
        "duration": 0.25,
        "retry_count": 2,
        "metadata": {"a": "é"},
    }
    assert list(end) == ["type", "run_id", "timestamp", "duration", "status", "result"]
    assert (end["status"], end["result"]) == ("UNCERTAIN", {"answer": 1})
    assert round(end["duration"], 4) == end["duration"] >= 0
    assert len({record["run_id"] for record in (start, step, end)}) == 1
    assert all(isinstance(record["timestamp"], float) for record in (start, step, end))
    assert "什么" in observer.path.read_text(encoding="utf-8")


def test_hops_own_form_writes_the_same_records(tmp_path: Path) -> None:
    """As HOP's document "HopletView" calls it: the path is a text, and each run has its own name of the Hoplet."""
    observer = HopletObserver(str(tmp_path / "observer.jsonl"))
    with observer.trace_run("abc-123", "verify_model_output", {"a": 1}) as tracer:
        tracer.trace_step(1, "hop_get", "Break down", "OK", 3.456789, 0)
        tracer.trace_step(2, "hop_judge", "Trace", "UNCERTAIN", 4.5, retry_count=1, metadata={"b": 2})
        tracer.set_result({"score": 4})
    with (
        pytest.raises(KeyError),
        observer.trace_run(run_id="abc-124", hoplet="verify_model_output", input_data={}),
    ):
        raise KeyError("gone")
    with observer.trace_run("abc-125", "verify_model_output", {}):
        pass
    observer.close()
    lines = records(tmp_path / "observer.jsonl")
    for line in lines:
        assert isinstance(line.pop("timestamp"), float)
    assert all(line.pop("duration") >= 0 for line in lines if line["type"] == "run_end")
    start = {"type": "run_start", "run_id": "abc-123", "hoplet": "verify_model_output", "input": {"a": 1}}
    step = {"type": "step", "run_id": "abc-123"}
    end = {"type": "run_end", "run_id": "abc-123"}
    assert lines == [
        start,
        {
            **step,
            "step": 1,
            "op": "hop_get",
            "task": "Break down",
            "status": "OK",
            "duration": 3.4568,
            "retry_count": 0,
        },
        {
            **step,
            "step": 2,
            "op": "hop_judge",
            "task": "Trace",
            "status": "UNCERTAIN",
            "duration": 4.5,
            "retry_count": 1,
            "metadata": {"b": 2},
        },
        {**end, "status": "UNCERTAIN", "result": {"score": 4}},
        {**start, "run_id": "abc-124", "input": {}},
        {**end, "run_id": "abc-124", "status": "FAIL", "metadata": {"error": "'gone'"}},
        {**start, "run_id": "abc-125", "input": {}},
        {**end, "run_id": "abc-125", "status": "OK", "result": None},
    ]


def test_a_run_without_steps_is_ok_and_one_that_raises_is_not(tmp_path: Path) -> None:
    """FAIL with the error, and no result."""
    observer = HopletObserver(tmp_path / "o.jsonl", "h")
    observer.run({}).end(None)
    observer.run({}).failed("[ValueError] no")
    _, good, _, bad = records(observer.path)
    assert (good["status"], good["result"]) == ("OK", None)
    assert (bad["status"], bad["metadata"], "result" in bad) == ("FAIL", {"error": "[ValueError] no"}, False)


def test_writers_never_tear_a_line(tmp_path: Path) -> None:
    """Threads of two observers on one file, with lines larger than a page: each one arrives once and whole."""
    observers = [HopletObserver(tmp_path / "o.jsonl", f"h{at}") for at in range(2)]

    def write(at: int) -> None:
        for n in range(40):
            observers[at % 2].run({"at": at, "n": n, "text": "x" * (n * 997)}).end({})

    threads = [threading.Thread(target=write, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = records(observers[0].path)
    starts = [record for record in lines if record["type"] == "run_start"]
    assert sorted((r["input"]["at"], r["input"]["n"]) for r in starts) == [(a, n) for a in range(8) for n in range(40)]
    assert {r["run_id"] for r in starts} == {r["run_id"] for r in lines if r["type"] == "run_end"}
    assert [observer.lost for observer in observers] == [0, 0]


def test_a_line_that_another_is_writing_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    """One that opens the file waits until the line is whole; a blank line is nobody's record."""
    path = tmp_path / "o.jsonl"
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write('{"type": "run_')
        other.flush()
        second = threading.Thread(target=lambda: HopletObserver(path, "h").run({}))
        second.start()
        second.join(0.2)
        other.write('end"}\n')
        other.flush()
        fcntl.flock(other, fcntl.LOCK_UN)
        second.join()
    assert [record["type"] for record in records(path)] == ["run_end", "run_start"]


def test_a_line_that_was_cut_off_costs_itself_only(tmp_path: Path) -> None:
    """What a killed process left is ended before the next line."""
    path = tmp_path / "o.jsonl"
    path.write_text('{"type": "run_start"}\n{"type": "run_e')
    HopletObserver(path, "h").run({})
    whole, torn, new = path.read_text().splitlines()
    assert (json.loads(whole), torn) == ({"type": "run_start"}, '{"type": "run_e')
    assert json.loads(new)["type"] == "run_start"


def test_a_disk_that_gets_full_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it may have been written; the line after it is whole."""
    observer = HopletObserver(tmp_path / "o.jsonl", "h")
    observer.run({})
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, line: real(fd, line[:10]))
        observer.run({})
    observer.run({})
    first, torn, last = observer.path.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(first)["type"] == json.loads(last)["type"] == "run_start"
    assert (observer.lost, observer.last_error) == (
        1,
        "only part of it could be written; the disk may be full",
    )


@pytest.mark.parametrize("value", [object(), {1, (2,)}, 10**400])
def test_what_cannot_be_written_is_counted(tmp_path: Path, value: Any) -> None:
    """Nothing is raised, and the log stays as it was."""
    observer = HopletObserver(tmp_path / "o.jsonl", "h")
    trace = observer.run({})
    trace.end(value)
    assert [record["type"] for record in records(observer.path)] in (["run_start"], ["run_start", "run_end"])
    assert observer.lost + len(records(observer.path)) == 2


def test_a_place_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    """A folder of this name stands there."""
    (tmp_path / "o.jsonl").mkdir()
    observer = HopletObserver(tmp_path / "o.jsonl", "h")
    observer.run({}).end({})
    observer.close()
    observer.close()
    assert observer.lost == 2


def test_observing_never_breaks_a_batch(tmp_path: Path) -> None:
    """The results are all there without a log."""
    batch = Batch(tmp_path, rows=numbered(3))
    (batch.out / "observer.jsonl").mkdir(parents=True)
    assert [row["hop_stats"]["status"] for row in results_of(batch.run())] == ["OK"] * 3


@pytest.mark.parametrize(("count", "told"), [(1, "2 records"), (3, "6 records")])
def test_what_the_log_lost_is_told_once(tmp_path: Path, count: int, told: str) -> None:
    """At the end, with the reason, and beside the results; a log that is whole is no news."""
    batch = Batch(tmp_path, rows=numbered(count))
    assert "observer" not in batch.typed().err
    (batch.out / "observer.jsonl").unlink()
    (batch.out / "observer.jsonl").mkdir()
    done = batch.typed("--fresh")
    assert done.code == 0
    assert done.err.count("could not be written") == 1
    assert f"observer.jsonl: {told} of the observer could not be written: Is a directory" in done.err


def test_a_batch_is_observed(tmp_path: Path) -> None:
    """Beside its results: every run with its steps and its end, the failed one as FAIL; steps only if traced."""
    code = """
def hop(n, session):
    if n == 3:
        raise ValueError("no")
    if n == 2:
        with session.tracer.trace_step(op="look", task="at it") as step:
            step.status = "LACK_OF_INFO"
    return ("UNCERTAIN" if n == 1 else "OK"), {"answer": n}
"""
    batch = Batch(tmp_path, code, numbered(3))
    batch.run(workers=1)
    lines = records(batch.out / "observer.jsonl")
    assert [record["type"] for record in lines] == [
        *("run_start", "run_end"),
        *("run_start", "step", "run_end"),
        *("run_start", "run_end"),
    ]
    starts = [record for record in lines if record["type"] == "run_start"]
    ends = [record for record in lines if record["type"] == "run_end"]
    assert [record["hoplet"] for record in starts] == ["hop"] * 3
    assert {tuple(record) for record in starts} == {("type", "run_id", "timestamp", "hoplet", "input")}
    # The status that the function returned, not that of its last step.
    assert [record["status"] for record in ends] == ["UNCERTAIN", "OK", "FAIL"]
    assert [record["metadata"]["profile"] for record in ends] == ["default"] * 3
    assert ends[-1]["metadata"]["error"].startswith("[ValueError] no")
    assert "metadata" not in lines[3]
