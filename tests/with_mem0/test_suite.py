"""mem0 in whole runs: killed and continued, watched for whom it talks to, and without an endpoint for vectors."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.test_kill_memory import files

from servers.loopback import LoopbackServer
from support.commands import Job, environment
from support.memory_talks import talk
from with_mem0.extracting import reply

WATCH = """
import json, os, sys

def watch(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        host = str(values[0] if event == "socket.getaddrinfo" else values[1][0])
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps(host) + "\\n")
        if host != "127.0.0.1":
            raise PermissionError(f"{host} is not loopback")

sys.addaudithook(watch)
"""
PARTS = (0.1, 0.4, 0.8)


def job(folder: Path, server: LoopbackServer, *flags: str) -> Job:
    """Two conversations at once."""
    folder.mkdir()
    (folder / "talks.json").write_text(json.dumps([talk(12, "a"), talk(10, "b", "hates")]))
    command = ["-m", "assay", "memory", "test", "--dataset", "plain", "--data", f"{folder}/talks.json"]
    command += ["--memory", "mem0", "--model", "openai/fake", "--base-url", server.url, "--segments", "3"]
    return Job([*command, "--output-dir", f"{folder}/out", *flags], folder / "out")


def _has(job: Job, calls: float) -> bool:
    return job.count("calls") >= calls


def test_a_killed_run_is_as_an_undisturbed_one(tmp_path: Path, server: LoopbackServer) -> None:
    """The same files, timings aside; of what the log had at a kill nothing is asked again."""
    whole, killed = job(tmp_path / "whole", server), job(tmp_path / "killed", server)
    ended = whole.run()
    assert ended.code == 0, ended.err
    total = whole.count("calls")
    assert total == len(server.bodies)
    for part in PARTS:
        server.bodies.clear()
        known = killed.count("calls")
        with killed.started() as started:
            assert started.wait_for(partial(_has, killed, total * part))
            started.kill()
        assert len(server.bodies) >= killed.count("calls") - known > 0
    server.bodies.clear()
    known = killed.count("calls")
    assert known < total
    assert killed.run().code == 0
    assert len(server.bodies) == total - known
    assert set(files(whole)) == {"0000.json", "0001.json", "summary.json"}
    assert files(killed) == files(whole)
    assert {name.partition(":")[0] for ids in questions(killed) for name in ids} == {"mem0"}


def questions(job: Job) -> list[list[str]]:
    """The ids of the items that each question's search returned."""
    lines = [line["data"] for line in job.lines("records") if line.get("kind") == "answer"]
    return [[hit[0] for hit in line["hits"]] for line in lines]


def test_a_failed_endpoint_is_asked_again_next_time(tmp_path: Path) -> None:
    """Vectors that never come are no fault of mem0's: exit code 3, and the same command goes on from there."""
    broken = [True]

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if broken[0] and len(body.get("input", ())) > 1:
            return 500, {"error": {"message": "it is gone"}}
        return reply(body)

    with LoopbackServer(answer) as server:
        told = job(tmp_path / "run", server, "--max-retries", "0")
        assert told.run().code == 3
        assert {end["status"] for end in told.ends()} == {"infra_error"}
        asked, broken[0] = len(server.bodies), False
        assert told.run().code == 0
        whole = job(tmp_path / "whole", server)
        server.bodies.clear()
        assert whole.run().code == 0
        assert files(told) == files(whole)
    assert asked == 2 * 4


def test_it_talks_to_loopback_only(tmp_path: Path, server: LoopbackServer) -> None:
    """Also where the environment wants telemetry; and the home folder stays as it was."""
    home, watch, seen = tmp_path / "home", tmp_path / "watch", tmp_path / "seen.jsonl"
    home.mkdir()
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    env = environment() | {"SEEN": str(seen), "MEM0_TELEMETRY": "True", "HOME": str(home)}
    env["PYTHONPATH"] += f":{watch}"
    env.pop("MEM0_DIR", None)
    told = job(tmp_path / "run", server)
    ended = subprocess.run(told.command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    hosts = {json.loads(line) for line in seen.read_text().splitlines()}
    assert hosts == {"127.0.0.1"}
    assert not list(home.rglob("*mem0*"))
    assert "mem0" not in ended.stderr.lower().replace(str(tmp_path), "")


def test_the_watch_sees_mem0s_telemetry(tmp_path: Path) -> None:
    """The test above would notice: imported as it comes, mem0 looks for its server. Nothing gets through."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    seen = tmp_path / "seen.jsonl"
    env = environment() | {"SEEN": str(seen), "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    env.pop("MEM0_TELEMETRY", None)
    code = (
        "from mem0.memory import telemetry\n"
        "telemetry.client_telemetry.posthog.capture('x', distinct_id='x')\n"
        "telemetry.client_telemetry.posthog.flush(timeout_seconds=1)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=False)
    assert "posthog" in seen.read_text()


def test_a_model_without_vectors_says_what_to_do(tmp_path: Path, server: LoopbackServer) -> None:
    """The run ends as wrong use, before anything is asked."""
    script = tmp_path / "replies.jsonl"
    script.write_text('{"text": "{}"}\n')
    told = job(tmp_path / "run", server)
    told.command[told.command.index("openai/fake")] = f"script/{script}"
    place = told.command.index("--base-url")
    del told.command[place : place + 2]
    ended = told.run()
    assert ended.code == 2
    assert "--memory-args embedder=local" in ended.err


@pytest.mark.parametrize("said", ["embedder=openai", "threshold=high", "colour=red"])
def test_wrong_options_are_refused(tmp_path: Path, server: LoopbackServer, said: str) -> None:
    """With exit code 2, and no request."""
    ended = job(tmp_path / "run", server, "--memory-args", said).run()
    assert ended.code == 2
    assert said.partition("=")[0] in ended.err
    assert server.bodies == []
