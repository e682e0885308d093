"""An endpoint that will refuse every further call: the run stops, says why, and the same command continues it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from assay.engine.caller import MAX_SAME_FAILURES

from servers.loopback import LoopbackServer, chat
from support.commands import run_here
from support.tasks import write_task

ROWS = MAX_SAME_FAILURES + 10
RIGHT = (200, chat("the answer is 1"))
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
BALANCE = {"error": {"message": "Insufficient Balance", "type": "unknown_error", "code": "invalid_request_error"}}
ANTHROPIC = {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}}


def words(task: Path, url: str) -> list[str]:
    options = ["--concurrency", "1", "--max-retries", "0", "--output-dir", "out"]
    return ["task", str(task), "--model", "openai/fake", "--base-url", url, *options]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "task", ROWS)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (429, QUOTA, "You exceeded your current quota"),
        (402, BALANCE, "Insufficient Balance"),
        (400, ANTHROPIC, "Your credit balance is too low"),
    ],
)
def test_an_account_without_credit_stops_the_run_until_there_is_some(
    tmp_path: Path, task: Path, status: int, body: Any, said: str
) -> None:
    answers = itertools.chain([RIGHT, (status, body)], itertools.repeat(RIGHT))
    with LoopbackServer(lambda _: next(answers)) as server:
        stopped = run_here([*words(task, server.url), "--max-retries", "5"], tmp_path)
        assert stopped.returncode == 3
        assert said in stopped.stderr
        assert "When there is credit again, the same command continues the run" in stopped.stderr
        assert "Waiting for open requests" not in stopped.stderr
        assert len(server.bodies) == 2
        assert run_here(words(task, server.url), tmp_path).returncode == 0
        assert len(server.bodies) == ROWS + 1


def test_an_overloaded_endpoint_is_still_asked_again(tmp_path: Path, task: Path) -> None:
    overloaded = (429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}})
    answers = itertools.chain([overloaded], itertools.repeat(RIGHT))
    with LoopbackServer(lambda _: next(answers)) as server:
        server.headers["Retry-After"] = "0"
        done = run_here([*words(task, server.url), "--max-retries", "5"], tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(server.bodies) == ROWS + 1


@pytest.mark.parametrize("answer", [(400, {"error": {"message": "no such template"}}), (200, {"choices": []})])
def test_first_calls_that_all_fail_alike_stop_the_run(tmp_path: Path, task: Path, answer: tuple[int, Any]) -> None:
    answers = itertools.chain(itertools.repeat(answer, 2 * MAX_SAME_FAILURES), itertools.repeat(RIGHT))
    with LoopbackServer(lambda _: next(answers)) as server:
        # The next start of the same run is as hopeless.
        for sent in (MAX_SAME_FAILURES, 2 * MAX_SAME_FAILURES):
            stopped = run_here(words(task, server.url), tmp_path)
            assert stopped.returncode == 3
            assert f"stopped after {MAX_SAME_FAILURES} calls that all failed alike: " in stopped.stderr
            assert len(server.bodies) == sent
        assert run_here(words(task, server.url), tmp_path).returncode == 0
        assert len(server.bodies) == 2 * MAX_SAME_FAILURES + ROWS


def refuse(body: dict[str, Any]) -> tuple[int, Any]:
    return 400, {"error": {"message": "flagged", "code": "content_filter"}}


def reject_in_other_words(body: dict[str, Any]) -> tuple[int, Any]:
    return 400, {"error": {"message": f"cannot take {body['messages'][-1]['content']}"}}


@pytest.mark.parametrize("answer", [refuse, reject_in_other_words])
def test_refusals_and_different_errors_do_not_stop_a_run(tmp_path: Path, task: Path, answer: Any) -> None:
    with LoopbackServer(answer) as server:
        run_here(words(task, server.url), tmp_path)
        assert len(server.bodies) == ROWS


def test_a_run_with_replies_is_not_stopped_by_rows_that_are_rejected_again(tmp_path: Path, task: Path) -> None:
    """Otherwise the second start could never write its results."""
    rejected = (400, {"error": {"message": "no such template"}})
    answers = itertools.chain([RIGHT], itertools.repeat(rejected))
    with LoopbackServer(lambda _: next(answers)) as server:
        for sent in (ROWS, 2 * ROWS - 1):
            done = run_here(words(task, server.url), tmp_path)
            assert done.returncode == 3
            assert "failed alike" not in done.stderr
            assert len(server.bodies) == sent


def test_a_judge_that_rejects_every_call_stops_also_a_run_whose_answers_are_there(tmp_path: Path, task: Path) -> None:
    """Replies of the model under test say nothing about the judge."""

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, {"error": {"message": "no such template"}}) if body["model"] == "judge" else RIGHT

    with LoopbackServer(reply) as server:
        assert run_here(words(task, server.url), tmp_path).returncode == 0
        stopped = run_here([*words(task, server.url), "--judge", "openai/judge"], tmp_path)
        assert stopped.returncode == 3
        assert f"stopped after {MAX_SAME_FAILURES} calls that all failed alike: " in stopped.stderr
        assert len(server.bodies) == ROWS + MAX_SAME_FAILURES


def test_a_closed_port_is_answered_with_advice_and_without_waiting(tmp_path: Path, task: Path) -> None:
    with LoopbackServer(lambda _: RIGHT) as server:
        url = server.url
    stopped = run_here(words(task, url), tmp_path)
    assert stopped.returncode == 3
    assert "cannot be reached" in stopped.stderr
    assert ". Check the base URL and whether the server runs\n" in stopped.stderr
    assert "Waiting for open requests" not in stopped.stderr
