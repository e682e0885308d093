"""One model behind several base URLs: which endpoint gets a call, and what happens when one dies and comes back."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import UsageError
from assay.core.roles import SEVERAL, split_urls

from servers.fake_openai import FakeOpenAI, answer_of
from servers.loopback import LoopbackServer, chat
from support.commands import Finished, Job, Started, run_here
from support.tasks import SEED, question, write_task

DOCS = 240
CONCURRENCY = 6


def lasting_port() -> int:
    """Return a port for a server that is killed and restarted.

    It is below those that the system gives to others, so no other process takes it in the meantime.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def several_job(task: Path, out: Path, *servers: FakeOpenAI, flags: tuple[str, ...] = ()) -> Job:
    """`assay task` with a --base-url for each server."""
    urls = [word for server in servers for word in ("--base-url", server.url)]
    command = ["-m", "assay", "task", str(task), "--model", "openai/fake", *urls]
    command += ["--concurrency", str(CONCURRENCY), "--output-dir", str(out), *flags]
    return Job(command, out)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[FakeOpenAI, FakeOpenAI]]:
    with FakeOpenAI() as a, FakeOpenAI() as b:
        yield a, b


@pytest.fixture
def servers(both: tuple[FakeOpenAI, FakeOpenAI]) -> tuple[FakeOpenAI, FakeOpenAI]:
    """Two servers without faults that have seen nothing yet."""
    for server in both:
        server.behave()
        server.reset()
    return both


def run_job(job: Job) -> Finished:
    """Run a command in this process."""
    done = run_here(job.command[3:], job.out.parent)
    return Finished(done.returncode, done.stdout, done.stderr)


def waits(started: Started, condition: Callable[[], bool]) -> None:
    """Wait for something that must happen while the run is running."""
    assert started.wait_for(condition), started.end()


def addresses(job: Job) -> Counter[str]:
    """Return how many replies of the journal came from each address."""
    return Counter(line["response"]["address"] for line in job.lines("calls") if "response" in line)


def test_an_endpoint_that_dies_and_comes_back_loses_no_case_and_nothing_is_asked_twice(
    tmp_path: Path,
) -> None:
    task = write_task(tmp_path / "task", DOCS)
    log_a, log_b = tmp_path / "a.log", tmp_path / "b.log"
    port = lasting_port()
    with (
        FakeOpenAI(log=log_a, latency=0.01) as a,
        FakeOpenAI(port, log=log_b, latency=0.01) as b,
    ):
        job = several_job(task, tmp_path / "out", a, b)
        with job.started() as started:
            waits(started, lambda: len(b.logged("answered")) >= 10)
            b.kill()
            answered_before = len(b.logged("answered"))
            before = job.count("calls")
            waits(started, lambda: job.count("calls") >= before + 20)
            # From now on only B can answer, so the run goes on only if B is tried again.
            a.behave(held=True)
            with FakeOpenAI(port, log=log_b, latency=0.01) as again:
                waits(started, lambda: len(again.logged("answered")) >= answered_before + 10)
                a.behave(latency=0.01)
                ended = started.end()
    assert ended.code == 0, ended.err
    asked = {(question(number), SEED) for number in range(DOCS)}
    assert {end["status"] for end in job.ends()} == {"ok"}
    assert len(job.ends()) == DOCS
    received = Counter(a.logged("received") + b.logged("received"))
    answered = Counter(a.logged("answered") + b.logged("answered"))
    assert received.keys() == asked
    assert set(answered.values()) == {1}
    # A call was received as often as it was sent, so no endpoint got a call whose reply had come.
    calls = job.lines("calls")
    assert len(calls) == DOCS
    for call in calls:
        prompt = call["request"]["prompt"]
        assert received[prompt, SEED] <= call.get("attempts", 1)
    # Only what was in flight at the kill was sent again.
    assert sum(received.values()) - DOCS <= CONCURRENCY
    assert sorted(job.replies()) == sorted(answer_of(*each) for each in asked)
    assert set(addresses(job)) == {a.url, b.url}
    assert f"{b.url} is left out until it answers again" in ended.err
    assert f"{b.url} answers again" in ended.err


def test_calls_go_to_the_freest_endpoint_and_each_has_its_own_permits(
    tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]
) -> None:
    """Two endpoints hold all their calls: each holds as many as --concurrency says."""
    task = write_task(tmp_path / "task", 40)
    a, b = servers
    for server in servers:
        server.behave(held=True)
    job = several_job(task, tmp_path / "out", a, b)
    with job.started() as started:
        waits(
            started,
            lambda: len(a.stats().requests) == CONCURRENCY and len(b.stats().requests) == CONCURRENCY,
        )
        # B is slow now, and A gets the other calls.
        a.behave()
        waits(started, lambda: len(a.stats().requests) == 40 - CONCURRENCY)
        b.behave()
        assert started.end().code == 0
    assert (a.stats().max_in_flight, b.stats().max_in_flight) == (CONCURRENCY, CONCURRENCY)
    assert addresses(job) == {a.url: 40 - CONCURRENCY, b.url: CONCURRENCY}


def test_other_endpoints_continue_the_run(tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]) -> None:
    """Endpoints may be added, removed and exchanged. A single one is part of what is asked, so it is another run."""
    task = write_task(tmp_path / "task", 12)
    out = tmp_path / "out"
    a, b = servers
    with FakeOpenAI() as c:
        stopped = run_job(several_job(task, out, a, b, flags=("--max-calls", "5")))
        assert stopped.code == 3
        job = several_job(task, out, b, c, a)
        assert run_job(job).code == 0
        assert sum(len(server.stats().requests) for server in (a, b, c)) == 12
        again = run_job(several_job(task, out, c, b))
        assert again.code == 0
        assert sum(len(server.stats().requests) for server in (a, b, c)) == 12
        spec = json.loads((job.folder / "run.json").read_text())["spec"]
        assert spec["base_url"] == SEVERAL
        assert {line["request"]["endpoint"] for line in job.lines("calls")} == {SEVERAL}
        rescored = run_here(["rescore", str(job.folder)], tmp_path)
        assert rescored.returncode == 0, rescored.stderr
        assert run_job(several_job(task, out, a)).code == 0
        assert len(list(out.glob("assay/*/run.json"))) == 2
        assert sum(len(server.stats().requests) for server in (a, b, c)) == 24


def test_an_endpoint_that_was_never_there_costs_nothing(tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]) -> None:
    task = write_task(tmp_path / "task", 12)
    a, _ = servers
    job = several_job(task, tmp_path / "out", FakeOpenAI(lasting_port()), a)
    ended = run_job(job)
    assert ended.code == 0, ended.err
    assert addresses(job) == {a.url: 12}
    assert a.stats().repeated == 0


def test_endpoints_that_are_all_down_stop_the_run(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", 12)
    job = several_job(
        task,
        tmp_path / "out",
        FakeOpenAI(lasting_port()),
        FakeOpenAI(lasting_port()),
        flags=("--max-retries", "1"),
    )
    ended = run_job(job)
    assert ended.code == 3
    assert "cannot be reached" in ended.err


def test_an_endpoint_without_the_model_is_named(tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]) -> None:
    task = write_task(tmp_path / "task", 12)
    a, b = servers
    b.behave(faults={"404": 1.0})
    ended = run_job(several_job(task, tmp_path / "out", a, b))
    assert ended.code == 2
    assert f"{b.url} answered 404: the model does not exist" in ended.err


def test_an_endpoint_with_errors_is_left_out_and_its_calls_are_answered_by_the_other(
    tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]
) -> None:
    task = write_task(tmp_path / "task", 40)
    a, b = servers
    b.behave(faults={"503": 1.0})
    job = several_job(task, tmp_path / "out", a, b, flags=("--max-retries", "0"))
    ended = run_job(job)
    assert ended.code == 0, ended.err
    assert addresses(job) == {a.url: 40}
    assert a.stats().repeated == 0
    assert f"{b.url} is left out until it answers again: {b.url} answered 503" in ended.err


def test_a_request_that_fails_everywhere_does_not_cost_the_others(
    tmp_path: Path, servers: tuple[FakeOpenAI, FakeOpenAI]
) -> None:
    """Its call fails after two rounds of both endpoints."""
    task = write_task(tmp_path / "task", 40)
    for server in servers:
        server.behave(always={question(3): "500"}, retry_after=0.0)
    job = several_job(task, tmp_path / "out", *servers, flags=("--max-retries", "1"))
    ended = run_job(job)
    assert ended.code == 3
    assert Counter(end["status"] for end in job.ends()) == {"ok": 39, "infra_error": 1}
    assert sum(len(server.stats().outcomes(question(3))) for server in servers) == 4


def test_likelihoods_are_measured_at_several_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def echo(body: dict[str, Any]) -> tuple[int, Any]:
        text = body["prompt"]
        offsets = list(range(len(text) + 1))
        logprobs = [None, *(-0.1 - (character == "b") for character in text[1:]), -1.0]
        tokens = [*text, "."]
        fields = {"text_offset": offsets, "token_logprobs": logprobs, "tokens": tokens}
        top = [None, *({token: -0.1} for token in tokens[1:])]
        return 200, {"choices": [{"text": text + ".", "logprobs": {**fields, "top_logprobs": top}}]}

    write_task(
        tmp_path,
        8,
        output_type="multiple_choice",
        doc_to_choice=["a", "b"],
        doc_to_target=0,
        filter_list=[],
        metric_list=[{"metric": "acc"}],
    )
    with LoopbackServer(echo) as a, LoopbackServer(echo) as b:
        run = assay.run(
            assay.spec(
                "task",
                tasks=["numbers.yaml"],
                model="openai-completions/fake",
                base_url=[a.url, b.url],
                model_args={"tokenizer_backend": "none"},
                output_dir="out",
            )
        )
        assert run.exit_code == 0
        assert run["acc"].value == 1.0
        assert len(a.bodies) + len(b.bodies) == 16
        assert a.bodies
        assert b.bodies


FORWARDED = """
import openai

def hop(n, session):
    client = openai.OpenAI(base_url=session.base_url(), api_key="k", max_retries=0)
    reply = client.chat.completions.create(model="fake", messages=[{"role": "user", "content": f"say {n}"}])
    return "OK", {"answer": reply.choices[0].message.content}
"""


def test_the_requests_of_an_sdk_are_forwarded_to_several_endpoints(tmp_path: Path) -> None:
    (tmp_path / "function.py").write_text(FORWARDED)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(8)))
    # A has room for every call that comes after the reply to the one before, so it holds its replies until B is asked.
    b_was_asked = threading.Event()

    def say_after_b(body: dict[str, Any]) -> tuple[int, Any]:
        assert b_was_asked.wait(60)
        return 200, chat(body["messages"][-1]["content"])

    def say(body: dict[str, Any]) -> tuple[int, Any]:
        b_was_asked.set()
        return 200, chat(body["messages"][-1]["content"])

    with LoopbackServer(say_after_b) as a, LoopbackServer(say) as b:
        done = run_here(
            [
                *("hop", "function.py:hop", "rows.jsonl", "--model", "openai/fake"),
                *("--base-url", f"{a.url},{b.url}", "--output-dir", "out", "--quiet"),
            ],
            tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert len(a.bodies) + len(b.bodies) == 8
        assert a.bodies
        assert b.bodies


def test_evaluate_takes_several_base_urls_and_continues_with_others(tmp_path: Path) -> None:
    def say(body: dict[str, Any]) -> tuple[int, Any]:
        return 200, chat(body["messages"][-1]["content"])

    with LoopbackServer(say) as a, LoopbackServer(say) as b, LoopbackServer(say) as c:
        for urls, calls in (([a.url, b.url], 3), ([b.url, c.url], None)):
            run = assay.evaluate(
                [{"n": n, "answer": str(n)} for n in range(6)],
                model="openai/fake",
                prompt="{{ n }}",
                score=["exact_match"],
                target="answer",
                output_dir=tmp_path,
                base_url=urls,
                max_calls=calls,
                quiet=True,
            )
        assert run["exact_match"].value == 1.0
        assert len(a.bodies) + len(b.bodies) + len(c.bodies) == 6
        assert len(list(tmp_path.glob("assay/*/run.json"))) == 1


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (None, []),
        ("http://a/v1", ["http://a/v1"]),
        ("http://a/v1, https://b/v1,http://a/v1", ["http://a/v1", "https://b/v1"]),
    ],
)
def test_base_urls_are_separated_by_commas(text: str | None, urls: list[str]) -> None:
    assert split_urls(text) == urls


def test_a_model_without_a_network_is_connected_once(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("async def answer(prompt, params):\n    return 'x'\n")
    task = write_task(tmp_path / "task", 2)
    spec = assay.spec(
        "task",
        tasks=[str(task)],
        model=f"python/{tmp_path}/model.py:answer",
        base_url=["http://a/v1", "http://b/v1"],
        output_dir=str(tmp_path / "out"),
    )
    assert assay.run(spec).exit_code == 0


def test_a_base_url_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="a base URL begins with http:// or https://, not 'ftp://b'"):
        assay.run(assay.spec("task", tasks=[sys.argv[0]], model="openai/x", base_url=["ftp://b"], output_dir="x"))


def test_the_base_url_of_a_spec_is_text() -> None:
    assert assay.spec("task", tasks=["t"], base_url=["http://a", "http://b"]).base_url == "http://a,http://b"
    assert msgspec.to_builtins(assay.spec("task", tasks=["t"], base_url="http://a"))["base_url"] == "http://a"
