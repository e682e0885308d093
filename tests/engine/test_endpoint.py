"""An endpoint that refuses, is not there, or dies: what is said, what is kept, how it goes on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from assay.models.http.errors import status_error
from assay.models.http.wire import HttpResponse

from servers.fake_openai import FakeOpenAI
from support.commands import task_job
from support.tasks import question, write_task


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_refusal_on_the_first_reply_leaves_nothing(tmp_path: Path, status: str) -> None:
    """A wrong key or model is wrong use: one sentence, no file, no folder."""
    task = write_task(tmp_path / "task", 40)
    with FakeOpenAI(latency=0.02, faults={status: 1.0}) as server:
        job = task_job(task, server, tmp_path / "out")
        finished = job.run()
        assert len(server.stats().requests) <= 8
    assert finished.code == 2
    assert finished.out == ""
    (sentence,) = finished.err.splitlines()
    assert f"answered {status}" in sentence
    assert not job.out.exists()


def test_refusal_later_on_is_a_failure_of_its_case(tmp_path: Path) -> None:
    """After one good reply a 404 concerns the request, and the run goes on."""
    task = write_task(tmp_path / "task", 20)
    with FakeOpenAI(always={question(9): "404"}) as server:
        job = task_job(task, server, tmp_path / "out", "--concurrency", "1")
        assert job.run().code == 3
    assert (job.summary()["ok"], job.summary()["infra_error"]) == (19, 1)


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_endpoint_that_is_not_there_stops_the_run(tmp_path: Path) -> None:
    """After the retries the run stops, says so, and the same command goes on once the endpoint is up."""
    task = write_task(tmp_path / "task", 30)
    server = FakeOpenAI(free_port())
    job = task_job(task, server, tmp_path / "out", "--max-retries", "1")
    stopped = job.run()
    assert stopped.code == 3
    assert stopped.err.count("cannot be reached") == 1
    assert "Continue with: assay task" in stopped.err
    assert job.summary()["state"] == "stopped"
    with server:
        assert job.run().code == 0
        assert len(server.stats().requests) == 30
    assert job.summary()["ok"] == 30


def test_endpoint_that_dies_in_the_middle_stops_the_run(tmp_path: Path) -> None:
    """What was answered is kept; the same command asks for the rest."""
    task = write_task(tmp_path / "task", 60)
    with FakeOpenAI(latency=0.03, jitter=1) as server:
        whole = task_job(task, server, tmp_path / "whole")
        assert whole.run().code == 0
        job = task_job(task, server, tmp_path / "out", "--max-retries", "1")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 20)
            server.kill()
            stopped = started.end()
    answered = set(job.replies())
    assert stopped.code == 3
    assert "Continue with: assay task" in stopped.err
    assert 20 <= len(answered) < 60
    with FakeOpenAI(server.port) as server:
        assert job.run().code == 0
        assert_asked_only_the_rest(server, answered, 60)
    assert job.samples() == whole.samples()


def assert_asked_only_the_rest(server: FakeOpenAI, answered: set[str], total: int) -> None:
    """Nothing that was answered before arrived, and everything else did."""
    asked = [seen.reply for seen in server.stats().requests]
    assert answered.isdisjoint(asked)
    assert len(answered) + len(asked) == total


def test_second_process_on_the_same_run_is_refused(tmp_path: Path) -> None:
    """A run has one writer: the second start says who is in the way and what to do."""
    task = write_task(tmp_path / "task", 30)
    with FakeOpenAI(always={question(0): "hang"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") == 29)
            second = job.run()
            assert started.process.poll() is None
        assert second.code == 2
        assert "another process is working on" in second.err
        assert len(second.err.splitlines()) == 1
        assert len(server.stats().requests) == 30


def test_budget_of_calls_is_kept_exactly(tmp_path: Path) -> None:
    """--max-calls N makes N requests, stops, and the same command makes the next N."""
    task = write_task(tmp_path / "task", 10, repeats=5)
    with FakeOpenAI(latency=0.02, jitter=1) as server:
        job = task_job(task, server, tmp_path / "out", "--max-calls", "20")
        for received, code in [(20, 3), (40, 3), (50, 0)]:
            finished = job.run()
            assert finished.code == code
            assert len(server.stats().requests) == received
            assert len(job.replies()) == received, "no paid reply is dropped"
            assert ("as --max-calls says" in finished.err) == (code == 3)
        assert server.stats().repeated == 0


def test_failed_subjects_are_asked_again_only_when_told(tmp_path: Path) -> None:
    """subject_error is a result: the same command shows it, --retry-failed asks those cases again."""
    task = write_task(tmp_path / "task", 20)
    refusing = {question(4): "refusal", question(5): "overflow"}
    with FakeOpenAI(always=refusing) as server:
        job = task_job(task, server, tmp_path / "out")
        assert job.run().code == 0
        server.reset()
        server.behave()
        assert job.run().code == 0
        assert not server.stats().requests
        assert job.summary()["subject_error"] == 2
        assert job.run("--retry-failed").code == 0
        assert {seen.prompt for seen in server.stats().requests} == set(refusing)
    assert job.summary()["subject_error"] == 0
    assert not [row for row in job.rows() if "error" in row]
    assert {end["try"] for end in job.ends()[-2:]} == {2}


def test_an_html_page_is_shown_as_its_text_in_one_line() -> None:
    page = b"<!DOCTYPE html>\n<html><style>p {}</style><h1>Not Found</h1>\n<p>Nothing here.</p></html>"
    failure = status_error(HttpResponse(404, {}, page), "http://h").failure
    assert failure.message.startswith("http://h answered 404: Not Found Nothing here. Check the model's name")
