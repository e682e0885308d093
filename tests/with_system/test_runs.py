"""A system in whole runs on the shipped conversations: counted, killed and continued, and watched for its sockets."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.test_kill_memory import timeless

from servers.loopback import LoopbackServer
from servers.memory_model import MemoryModel, kind, reply
from support.commands import Job, environment
from support.killing import kill_count
from with_system.systems import RUNS, SYSTEM, memory_test

KILLS = kill_count(10, in_ci=1)
WATCH = """
import json, os, sys

def watch(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        host = values[0] if event == "socket.getaddrinfo" else values[1]
        # The address of a Unix socket is its path: it does not leave the machine.
        host = host if isinstance(host, (str, bytes)) or host is None else host[0]
        host = host.decode() if isinstance(host, bytes) else host
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps(str(host)) + "\\n")
        if str(host) != "127.0.0.1":
            raise PermissionError(f"{host} is not loopback")

sys.addaudithook(watch)
"""
# Switches of the systems that would make them talk to others.
TELEMETRY = {
    "MEM0_TELEMETRY": "True",
    "GRAPHITI_TELEMETRY_ENABLED": "true",
    "LANGSMITH_TRACING": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGSMITH_API_KEY": "lsv2-not-a-key",
}


def result_files(job: Job) -> dict[str, Any]:
    """Every result file and the summary beside them, without times."""
    paths = [path.relative_to(job.out) for path in job.out.rglob("*.json*")]
    # The first folder is the data set or the memory. `memory test` has one below it, named after the minute.
    return {f"{path.parts[0]}/{path.name}": _content(job.out / path) for path in paths if path.parts[0] != "assay"}


def _content(path: Path) -> Any:
    text = path.read_text()
    return timeless([json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text))


def _has(job: Job, calls: float) -> bool:
    return job.count("calls") >= calls


@pytest.mark.parametrize("name", RUNS)
def test_a_run_killed_often_is_as_an_undisturbed_one(tmp_path: Path, server: MemoryModel, name: str) -> None:
    """The same files, times aside; of what the log had at a kill nothing is asked again."""
    # Apart from each other: a run takes replies from runs in the folders beside its own.
    whole, killed = (RUNS[name](tmp_path / part / "out", server) for part in ("whole", "killed"))
    assert_kills_cost_nothing(whole, killed, server)


def assert_kills_cost_nothing(whole: Job, killed: Job, server: MemoryModel) -> None:
    """One run is undisturbed, the other is killed KILLS times: the same files, and no logged call is made again."""
    ended = whole.run()
    assert ended.code == 0, ended.err
    total = whole.count("calls")
    assert total == len(server.bodies)
    asked = set(map(str, server.bodies))
    server.bodies.clear()
    for number in range(1, KILLS + 1):
        known = killed.count("calls")
        with killed.started() as started:
            assert started.wait_for(partial(_has, killed, total * number / (KILLS + 1)))
            started.kill()
        assert killed.count("calls") >= known
    lost = len(server.bodies) - killed.count("calls")
    assert 0 <= lost <= KILLS * _IN_FLIGHT
    known = killed.count("calls")
    server.bodies.clear()
    ended = killed.run()
    assert ended.code == 0, ended.err
    assert len(server.bodies) == total - known
    assert killed.count("calls") == total
    assert set(map(str, server.bodies)) <= asked
    assert result_files(whole)
    assert result_files(killed) == result_files(whole)


# Two cases, each of which makes one call at a time for its memory; answers are asked for in parallel.
_IN_FLIGHT = 16


@pytest.mark.parametrize("name", RUNS)
def test_its_calls_are_logged_and_counted_by_purpose(tmp_path: Path, server: MemoryModel, name: str) -> None:
    """Every request of the system is a call of the run. Calls and tokens of all stages add up to those of the run."""
    job = RUNS[name](tmp_path / "run", server)
    ended = job.run()
    assert ended.code == 0, ended.err
    assert job.count("calls") == len(server.bodies)
    summary = job.summary()
    told = [reply(body)[1]["usage"] for body in server.bodies]
    spent = [sum(usage.get(name, 0) for usage in told) for name in ("prompt_tokens", "completion_tokens")]
    assert [summary["spent"]["input_tokens"], summary["spent"]["output_tokens"]] == spent
    (entry,) = summary["report"]["entries"]
    table = next(table for table in entry["tables"] if table["name"] == "usage")
    stages = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}
    assert list(stages) == ["build", "retrieve", "answer"]
    assert sum(stage["calls"] for stage in stages.values()) == len(server.bodies)
    answers = sum("Question: " in str(body.get("messages")) for body in server.bodies)
    assert stages["answer"]["calls"] == answers
    assert stages["build"]["tokens in"] > stages["build"]["calls"] > 0
    assert [sum(stage[name] or 0 for stage in stages.values()) for name in ("tokens in", "tokens out")] == spent


def test_every_request_names_the_model_of_the_run(tmp_path: Path, server: MemoryModel) -> None:
    """An endpoint refuses a name that it does not know."""
    ended = memory_test(tmp_path / "out", server).run()
    assert ended.code == 0, ended.err
    assert {body["model"] for body in server.bodies} == {"fake"}


def test_a_failed_endpoint_is_asked_again_next_time(tmp_path: Path) -> None:
    """Calls that fail are no fault of the system: exit code 3, and the same command goes on from there."""
    broken, count = [True], [0]

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        count[0] += 1
        if broken[0] and count[0] > 5 and kind(body) != "embedding":
            return 500, {"error": {"message": "it is gone"}}
        return reply(body)

    with LoopbackServer(answer) as server:
        told = memory_test(tmp_path / "run" / "out", server, "--max-retries", "0")
        assert told.run().code == 3
        assert {end["status"] for end in told.ends()} == {"infra_error"}
        broken[0] = False
        ended = told.run()
        assert ended.code == 0, ended.err
        whole = memory_test(tmp_path / "whole" / "out", server)
        assert whole.run().code == 0
        assert result_files(told) == result_files(whole)


def test_it_talks_to_loopback_only(tmp_path: Path, server: MemoryModel) -> None:
    """Also where the environment wants telemetry; and the home folder stays empty."""
    home, watch, seen = tmp_path / "home", tmp_path / "watch", tmp_path / "seen.jsonl"
    home.mkdir()
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    env = environment() | TELEMETRY | {"SEEN": str(seen), "HOME": str(home)}
    env["PYTHONPATH"] += f":{watch}"
    env.pop("MEM0_DIR", None)
    told = memory_test(tmp_path / "run", server)
    ended = subprocess.run(told.command, env=env, cwd=home, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    hosts = {json.loads(line) for line in seen.read_text().splitlines()}
    assert hosts == {"127.0.0.1"}
    assert [path for path in home.rglob("*") if path.is_file() and "assay" not in path.parts] == []
    assert SYSTEM not in ended.stderr.lower().replace(str(tmp_path), "")


@pytest.mark.parametrize("said", ["k=high", "colour=red"])
def test_wrong_options_are_refused(tmp_path: Path, server: MemoryModel, said: str) -> None:
    """With exit code 2, and no request."""
    ended = memory_test(tmp_path / "run", server, "--memory-args", said).run()
    assert ended.code == 2
    assert said.partition("=")[0] in ended.err
    assert server.bodies == []
