"""A real server that assay starts: llama.cpp's own HTTP server with SmolLM2.

Loading the model takes a second or two, so each test does as much as it can with one server.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from assay.core.errors import ModelError
from assay.core.roles import Connection
from assay.core.types import Request, Response
from assay.models import llama_server, local
from assay.models.servers.model import ManagedModel

from conftest import Assay
from support.commands import Job
from support.managed import LLAMA_HTTP, is_alive, kill, wait_until

# The second continuation has a control token, which a grammar cannot force; the third has no prompt.
LIKELIHOODS = [
    Request(model="m", prompt="The capital of France is", continuation=" Paris"),
    Request(model="m", prompt="The sky is", continuation=" blue<|im_end|>"),
    Request(model="m", continuation="Once upon a time there was a fox."),
]
GREEDY = {"temperature": 0.0, "max_tokens": 8}
OCCUPANT = """\
import os, socket, sys
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
taken.bind(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
taken.listen()
taken.set_inheritable(True)
open(sys.argv[1], "x").close()
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.fixture
def pid_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with a file for each server that was started, named by its process."""
    folder = tmp_path / "pids"
    folder.mkdir()
    monkeypatch.setenv("LLAMA_HTTP_PIDS", str(folder))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_SERVER_KEY", "0123456789abcdef")
    return folder


def pids(folder: Path) -> list[int]:
    """The processes of the servers, in order of their starts."""
    return [int(file.name) for file in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)]


def test_llama_server_answers_as_the_model_inside_the_process_and_survives_a_kill(
    weights: Path, tmp_path: Path, pid_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start finds its port taken: the script listens on it before it becomes the server."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "occupied.py").write_text(OCCUPANT)
    marker = tmp_path / "was-occupied"
    server = f"'{sys.executable}' '{LLAMA_HTTP}'"
    (programs / "llama-server").write_text(
        f"#!/bin/sh\nif [ -e '{marker}' ]; then exec {server} \"$@\"; fi\n"
        f"exec '{sys.executable}' '{tmp_path / 'occupied.py'}' '{marker}' '{LLAMA_HTTP}' \"$@\"\n"
    )
    (programs / "llama-server").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    async def run() -> None:
        managed = llama_server.connect(Connection(name=str(weights), args={"n_ctx": 2048, "n_parallel": 1}))
        inside = local.connect(Connection(name=str(weights), args={"n_ctx": 2048}))
        try:
            for request in LIKELIHOODS:
                assert (await managed.send(request, 1)).data == (await inside.send(request, 1)).data
            chat = Request(model="m", messages=[{"role": "user", "content": "Say hi."}], params=GREEDY)
            first = await managed.send(chat, 1)
            assert first.text == (await inside.send(chat, 1)).text
            text = Request(model="m", prompt="1, 2, 3,", params=GREEDY)
            assert (await managed.send(text, 1)).text == (await inside.send(text, 1)).text

            failed, running = pids(pid_files)
            assert marker.exists()
            assert not is_alive(failed)
            kill(running)
            again = await send_until_answered(managed, chat)
            assert again.text == first.text
            assert again.address != first.address
        finally:
            await managed.close()

    asyncio.run(run())
    assert len(pids(pid_files)) == 3
    assert not any(is_alive(pid) for pid in pids(pid_files))


async def send_until_answered(model: ManagedModel, request: Request) -> Response:
    """Repeat a request that a dying server lost, as the caller does."""
    while True:
        try:
            return await model.send(request, 1)
        except ModelError as error:
            if not error.retry:
                raise
            await asyncio.sleep(0.05)


def test_kill_9_of_assay_stops_llama_cpps_server_and_the_same_command_continues(
    weights: Path, sums: Path, pid_files: Path
) -> None:
    out = sums / "out"
    serve = f"'{sys.executable}' '{LLAMA_HTTP}' --model {{model}} --port {{port}}"
    words = ["-m", "assay", "task", str(sums / "sums.yaml"), "--model", f"openai-completions/{weights}"]
    job = Job([*words, "--serve", serve, "--concurrency", "1", "--output-dir", str(out)], out)
    with job.started() as started:
        started.wait_for(lambda: job.count("calls") >= 2)
        started.kill()
    (first,) = pids(pid_files)
    wait_until(lambda: not is_alive(first))
    before = job.count("calls")

    ended = job.run()
    assert ended.code == 0, ended.err
    _, second = pids(pid_files)
    assert not is_alive(second)
    assert job.count("calls") == 6
    assert job.summary()["ok"] == 6
    assert before >= 2


def test_a_model_that_is_missing_is_said_in_the_words_of_llama_cpp(
    weights: Path, sums: Path, pid_files: Path, assay_in: Assay
) -> None:
    serve = f"'{sys.executable}' '{LLAMA_HTTP}' --model {{model}} --port {{port}}"
    ended = assay_in("task", "sums.yaml", "--model", "openai/no.gguf", "--serve", serve)
    assert ended.returncode == 2
    assert "the server of --serve ended with exit code 1 before it was ready. The command was:" in ended.stderr
    assert "failed to load model 'no.gguf'" in ended.stderr
    assert "The last lines of its log," in ended.stderr
    assert not list((sums / "results").glob("assay/*/run.json"))
    assert not any(is_alive(pid) for pid in pids(pid_files))


def test_a_server_that_is_still_loading_at_the_limit_is_stopped(
    weights: Path, sums: Path, pid_files: Path, assay_in: Assay
) -> None:
    serve = f"'{sys.executable}' '{LLAMA_HTTP}' --model {{model}} --port {{port}}"
    model = ["--model", f"openai/{weights}", "--model-args", "start_timeout=0.001"]
    ended = assay_in("task", "sums.yaml", *model, "--serve", serve)
    assert ended.returncode == 3
    assert "the server of --serve was not ready within 0.001 s and was stopped" in ended.stderr
    assert not any(is_alive(pid) for pid in pids(pid_files))
