"""The last lines of a run: replies without an answer, refused runs, failures with --quiet, and no keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import AssayError
from assay.journal.index import RunIndex

from conftest import Assay
from servers.loopback import Answer, LoopbackServer, chat

TASK = ("task", "sums.yaml", "--model", "openai/m", "--output-dir", "out")
KEY = "sk-a-key-that-nobody-may-see"


def ended_with(text: str | None, finish: str) -> Answer:
    reply = chat("")
    reply["choices"][0] |= {"message": {"content": text}, "finish_reason": finish}
    return lambda body: (200, reply)


def failing(status: int, message: str) -> Answer:
    return lambda body: (status, {"error": {"message": message}})


@pytest.mark.parametrize("text", ["<think>Let me see. 0 and 0", "", None, " \n\n\u3000"])
def test_replies_that_were_cut_before_an_answer_are_told(sums: Path, assay_in: Assay, text: str | None) -> None:
    with LoopbackServer(ended_with(text, "length")) as server:
        ended = assay_in(*TASK, "--base-url", server.url)
    told = "6 of 6 replies were cut at max_tokens before an answer began: raise it with --gen-kwargs max_tokens=N"
    assert ended.stdout.count(told) == 1
    run = assay.load(str(sums / "out"))
    assert (run.summary.spent.cut_replies, run.summary.spent.empty_replies) == (6, 0)
    assert RunIndex.of_run(run.folder, verify=True).spent.cut_replies == 6
    assert told in assay_in("show", "out").stdout


def test_empty_replies_are_told_apart_from_replies_that_were_cut(sums: Path, assay_in: Assay) -> None:
    with LoopbackServer(ended_with("", "stop")) as server:
        ended = assay_in(*TASK, "--base-url", server.url)
    assert "6 of 6 replies were empty" in ended.stdout
    assert "max_tokens" not in ended.stdout


def test_a_reply_that_was_cut_after_its_answer_began_is_not_told(sums: Path, assay_in: Assay) -> None:
    with LoopbackServer(ended_with("<think>so</think>4 bec", "length")) as server:
        ended = assay_in(*TASK, "--base-url", server.url)
    assert "replies" not in ended.stdout


def test_a_judge_that_was_cut_is_told_as_the_judge(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        return ended_with("<think>Hm", "length")(body) if body["model"] == "judge" else (200, chat("4"))

    monkeypatch.chdir(sums)
    with LoopbackServer(reply) as server:
        run = assay.evaluate(
            [{"question": "2+2?", "answer": "4"}],
            model="openai/m",
            prompt="{{ question }}",
            score=["judge"],
            target="answer",
            judge="openai/judge",
            base_url=server.url,
            quiet=True,
            output_dir="judged",
        )
    calls = run.summary.spent.judge_replies
    assert calls
    words = "reply was" if calls == 1 else "replies were"
    told = f"judge: {calls} of {calls} {words} cut at max_tokens before an answer began"
    assert run.summary.reply_problems == [f"{told}: raise it with --judge-kwargs max_tokens=N"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (failing(400, "Output blocked by content filtering policy"), "Every case was refused by the endpoint: "),
        (failing(400, "maximum context length is 8 tokens"), "Every case was too long for the model: "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("quiet", [True, False])
def test_a_run_without_any_answer_is_told_loudly(
    sums: Path, assay_in: Assay, answer: Answer, words: str, quiet: bool
) -> None:
    with LoopbackServer(answer) as server:
        ended = assay_in(*TASK, "--base-url", server.url, *["--quiet"] * quiet)
    assert ended.stderr.count(words) == 1


def test_a_quiet_run_says_how_many_cases_failed_why_and_how_to_continue(sums: Path, assay_in: Assay) -> None:
    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        return failing(400, "no such thing")(body) if "1+1" in json.dumps(body) else (200, chat("4"))

    with LoopbackServer(reply) as server:
        ended = assay_in(*TASK, "--base-url", server.url, "--quiet")
    assert (ended.returncode, ended.stdout) == (3, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"1 of 6 cases failed (1 × rejected: {server.url} answered 400: no such thing). ")
    assert "Continue with: assay task sums.yaml" in line


@pytest.mark.parametrize("command", [("task", "sums.yaml", "--output-dir", "out"), ("doctor",)])
def test_a_key_that_an_error_repeats_is_not_shown(
    sums: Path, assay_in: Assay, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    with LoopbackServer(failing(401, f"Incorrect API key provided: Bearer {KEY}")) as server:
        ended = assay_in(*command, "--model", "deepseek/m", "--base-url", server.url)
    assert ended.returncode != 0
    assert "Incorrect API key provided: Bearer [redacted]" in ended.stdout + ended.stderr
    assert KEY not in ended.stdout + ended.stderr


def test_a_header_that_an_error_repeats_is_not_raised(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE", KEY)
    monkeypatch.chdir(sums)
    with (
        LoopbackServer(failing(401, f"bad token {KEY}")) as server,
        pytest.raises(AssayError, match=r"bad token \[redacted\]"),
    ):
        assay.evaluate(
            [{"question": "2+2?"}],
            model="openai/m",
            prompt="{{ question }}",
            base_url=server.url,
            gen_kwargs={"headers": {"X-Gate-Token": "$GATE"}},
            quiet=True,
            output_dir="out",
        )
