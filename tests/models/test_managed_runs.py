"""Whole runs with a server that assay starts: finished, continued, interrupted, killed. The server is a stand-in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import assay

from support.commands import Job
from support.damaged_runs import SMALL_RUNS
from support.managed import StandInPrograms, is_alive, kill, wait_until


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInPrograms:
    folder = tmp_path / "programs"
    folder.mkdir()
    programs = StandInPrograms(folder)
    monkeypatch.setenv("PATH", f"{programs.bin}:/usr/bin:/bin")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    # Set and deleted, so that a key that assay makes in this process is gone after the test.
    monkeypatch.setenv("ASSAY_SERVER_KEY", "")
    monkeypatch.delenv("ASSAY_SERVER_KEY")
    return programs


@pytest.fixture
def job(sums: Path) -> Job:
    """Six sums, asked one after the other of a model in `vllm`."""
    out = sums / "out"
    words = ["-m", "assay", "task", str(sums / "sums.yaml"), "--model", "vllm/org/name"]
    return Job([*words, "--concurrency", "1", "--output-dir", str(out)], out)


def test_a_finished_run_has_no_key_in_its_files_and_starts_no_server_again(job: Job, programs: StandInPrograms) -> None:
    first = job.run()
    assert first.code == 0, first.err
    assert "starting vllm serve org/name --host 127.0.0.1 --port" in first.err
    assert "vllm is ready after" in first.err
    (start,) = programs.starts()
    assert programs.alive() == []
    key = start["env"]["ASSAY_SERVER_KEY"]
    assert len(key) == 32
    assert not [path for path in job.out.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]

    (programs.bin / "vllm").unlink()
    assert job.run().code == 0
    assert len(programs.starts()) == 1


def test_kill_9_of_assay_leaves_no_process_and_the_same_command_continues(job: Job, programs: StandInPrograms) -> None:
    programs.behave("worker hold 4")
    with job.started() as started:
        wait_until(lambda: len(programs.requests()) == 4 and job.count("calls") == 3)
        started.process.kill()
        started.process.wait()
    wait_until(lambda: programs.alive() == [])

    programs.behave("")
    assert job.run().code == 0
    first, second = programs.starts()
    addresses = {call["response"]["address"] for call in job.lines("calls")}
    assert len(addresses) == 2
    # A server that assay starts costs nothing, so no call lacks a price.
    assert job.summary()["spent"]["unpriced_calls"] == 0
    # The port is no part of the requests: the second start asks only what the first one did not answer.
    asked = [(seen["pid"], seen["body"]["prompt"]) for seen in programs.requests()]
    assert [pid for pid, _ in asked] == [first["pid"]] * 4 + [second["pid"]] * 3
    assert asked[3][1] == asked[4][1]
    assert programs.alive() == []


def test_kill_9_of_assay_while_the_server_starts_leaves_no_process(job: Job, programs: StandInPrograms) -> None:
    programs.behave("worker unhealthy")
    with job.started() as started:
        wait_until((programs.records / "worker").exists)
        started.process.kill()
        started.process.wait()
    wait_until(lambda: programs.alive() == [])


def test_one_ctrl_c_ends_a_run_whose_server_starts(job: Job, programs: StandInPrograms) -> None:
    """No request is open, so nothing is waited for."""
    programs.behave("unhealthy")
    with job.started() as started:
        wait_until(lambda: bool(programs.starts()))
        started.process.send_signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == 130
    assert "Waiting for open requests" not in ended.err
    assert programs.alive() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_its_server(job: Job, programs: StandInPrograms, number: signal.Signals) -> None:
    programs.behave("hold 2")
    with job.started() as started:
        wait_until(lambda: len(programs.requests()) == 2)
        # The first one waits for the requests in flight, which this server never answers.
        started.process.send_signal(number)
        assert started.process.stderr
        assert any(line.startswith("Stopping.") for line in iter(started.process.stderr.readline, ""))
        started.process.send_signal(number)
        assert started.end().code == 130
    assert programs.alive() == []


def test_a_server_killed_in_the_middle_is_started_again_and_no_case_is_lost(
    job: Job, programs: StandInPrograms
) -> None:
    programs.behave("hold 3")
    with job.started("--concurrency", "4") as started:
        wait_until(lambda: len(programs.requests()) == 6)
        programs.behave("")
        kill(programs.starts()[0]["pid"])
        ended = started.end()
    assert ended.code == 0, ended.err
    assert "vllm was killed by SIGKILL in the middle of the run and is started again (1 of 3)" in ended.err
    assert job.summary()["ok"] == 6
    assert len(programs.starts()) == 2
    assert programs.alive() == []


def test_a_server_that_dies_again_and_again_stops_the_run_which_can_be_continued(
    job: Job, programs: StandInPrograms
) -> None:
    programs.behave("die 2")
    stopped = job.run()
    assert stopped.code == 3
    assert "vllm ended 4 times during the run. The last time it ended with exit code 7." in stopped.err
    assert "the same command continues the run" in stopped.err
    assert len(programs.starts()) == 4
    assert job.count("calls") == 4

    programs.behave("")
    assert job.run().code == 0
    assert job.count("calls") == 6


def test_a_judge_that_is_the_same_model_uses_the_same_server(job: Job, programs: StandInPrograms, sums: Path) -> None:
    ended = job.run("--judge", "vllm/org/name", "--model-args", "dtype=auto", "--limit", "1")
    assert len(programs.starts()) == 1, ended.err
    assert {seen["path"] for seen in programs.requests()} == {"/v1/completions", "/v1/chat/completions"}
    assert not is_alive(programs.starts()[0]["pid"])


@pytest.mark.parametrize(
    ("suite", "how"),
    [
        (small.suite, how)
        for small in SMALL_RUNS
        for how in ("serve", "vllm")
        # `evaluate` has a function of its own, and a calibration has no main model for --serve.
        if small.suite != "evaluate" and (small.suite, how) != ("calibration", "serve")
    ],
)
def test_every_suite_asks_the_server_that_assay_starts(
    suite: str, how: str, programs: StandInPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suites with roles of their own, such as the two of a profile of HOP, share the server of the main model."""
    monkeypatch.chdir(tmp_path)
    name, serve = ("openai/m", {"serve": programs.serve}) if how == "serve" else ("vllm/org/name", {})
    (small,) = [small for small in SMALL_RUNS if small.suite == suite]
    for file, text in small.files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    judge = {"judge": name} if suite in ("memory-eval", "calibration") else {}
    model = {"model": name} if suite != "calibration" else {}
    run = small.start(**model, **judge, **serve)
    assert run.summary.state == "finished", run.summary.first_failures
    assert len(programs.starts()) == 1
    assert len(programs.requests()) == run.summary.spent.calls > 0
    assert programs.alive() == []


def test_another_command_of_serve_is_another_run(sums: Path, programs: StandInPrograms) -> None:
    def run(serve: str) -> Path:
        model = {"model": "openai/m", "serve": serve, "output_dir": str(sums / "out")}
        run = assay.run(assay.spec("task", tasks=[str(sums / "sums.yaml")], **model))
        assert run.exit_code == 0
        return run.folder

    first = run(programs.serve)
    assert run(programs.serve) == first
    assert run(f"{programs.serve} --other") != first
    assert len(programs.starts()) == 2
    assert programs.alive() == []
