"""Servers that assay starts: their command lines, their lives and their ends, with programs that stand in for them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.core.errors import AssayError, ModelRefused, StopRun, UsageError
from assay.core.events import Event, Noted, notify, observed
from assay.core.protocols import Model
from assay.core.roles import LIKELIHOOD, Connection, Role
from assay.core.spec import RunSpec
from assay.core.types import Request, Response
from assay.engine.connect import connect
from assay.models import llama_server, sglang, vllm
from assay.models.servers import supervisor
from assay.models.servers.arguments import server_flags
from assay.models.servers.process import ReservedPort, ServerProcess, read_tail
from assay.models.servers.server import (
    MAX_RESTARTS,
    ManagedServer,
    acquire,
    release,
    server_environment,
    server_key,
)
from assay.suites.evaluate.options import EvaluateOptions

from support.managed import StandInPrograms, is_alive, kill, wait_until

CHAT = Request(model="m", messages=[{"role": "user", "content": "hi"}])
TEXT = Request(model="m", prompt="hi")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInPrograms:
    programs = StandInPrograms(tmp_path)
    monkeypatch.setenv("PATH", f"{programs.bin}:/usr/bin:/bin")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_SERVER_KEY", "0123456789abcdef")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return programs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of a model."""
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text("{}")
    return tmp_path / "qwen"


def with_model(model: Model, use: Callable[[Model], Awaitable[Any]]) -> Any:
    """Use a model in an event loop of its own, and close it."""

    async def run() -> Any:
        try:
            return await use(model)
        finally:
            await model.close()

    return asyncio.run(run())


def send(model: Model, *requests: Request) -> list[Response]:
    async def use(model: Model) -> list[Response]:
        return [await model.send(request, 7) for request in requests]

    result: list[Response] = with_model(model, use)
    return result


def fail(model: Model) -> AssayError:
    """The error of the first request."""
    with pytest.raises(AssayError) as caught:
        send(model, CHAT)
    return caught.value


# Command lines and requests.


def test_vllm_is_started_on_loopback_with_its_key_in_the_environment(programs: StandInPrograms, folder: Path) -> None:
    args = {"tensor_parallel_size": 2, "dtype": "auto", "enable_prefix_caching": False, "enforce_eager": True}
    model = vllm.connect(Connection(name=str(folder), args=args))
    assert programs.starts() == []

    chat, text, likelihood = send(model, CHAT, TEXT, Request(model="m", prompt="ab", continuation="cde"))

    (start,) = programs.starts()
    port = start["argv"][start["argv"].index("--port") + 1]
    assert start["argv"] == [
        *("serve", str(folder), "--host", "127.0.0.1", "--port", port, "--tensor-parallel-size", "2"),
        *("--dtype", "auto", "--no-enable-prefix-caching", "--enforce-eager"),
    ]
    assert start["env"] == {
        "VLLM_API_KEY": server_key(),
        "LLAMA_API_KEY": server_key(),
        "ASSAY_SERVER_KEY": server_key(),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    assert (chat.text, text.text) == ("a message", "a text")
    assert likelihood.data == {"logprob": -1.5, "greedy": True}
    assert {reply.address for reply in (chat, text, likelihood)} == {f"http://127.0.0.1:{port}/v1"}
    assert [(seen["path"], seen["body"]["model"]) for seen in programs.requests()] == [
        ("/v1/chat/completions", str(folder)),
        ("/v1/completions", str(folder)),
        ("/v1/completions", str(folder)),
    ]
    assert programs.alive() == []


def test_sglang_is_started_with_its_own_flags(programs: StandInPrograms) -> None:
    model = sglang.connect(Connection(name="Qwen/Qwen3-8B", args={"tp": 2, "enable_metrics": False}))
    (reply,) = send(model, TEXT)
    (start,) = programs.starts()
    port = start["argv"][start["argv"].index("--port") + 1]
    assert start["argv"] == [
        *("serve", "--model-path", "Qwen/Qwen3-8B", "--host", "127.0.0.1", "--port", port),
        *("--api-key", server_key(), "--tp", "2"),
    ]
    assert reply.text == "a text"
    assert programs.alive() == []


def test_llama_server_is_started_with_llama_cpps_short_flags(programs: StandInPrograms, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    args = {"ngl": 99, "n_ctx": 4096, "flash_attn": "on", "mmap": False}
    model = llama_server.connect(Connection(name=str(tmp_path / "m.gguf"), args=args))
    send(model, CHAT)
    (start,) = programs.starts()
    port = start["argv"][start["argv"].index("--port") + 1]
    assert start["argv"] == [
        *("--model", str(tmp_path / "m.gguf"), "--host", "127.0.0.1", "--port", port),
        *("-ngl", "99", "--ctx-size", "4096", "--flash-attn", "on", "--no-mmap"),
    ]


def test_values_of_model_args_become_words_of_the_command() -> None:
    args = {
        "lora_modules": ["a=1", "b=2"],
        "rope_scaling": {"factor": 2},
        "revision": None,
        "start_timeout": 5,
        "max_length": 9,
    }
    assert server_flags(args, title="vllm", taken=()) == [
        *("--lora-modules", "a=1", "b=2"),
        *("--rope-scaling", '{"factor": 2}'),
    ]


@pytest.mark.parametrize(("name", "value"), [("port", 80), ("api_key", "x"), ("served-model-name", "y")])
def test_flags_that_assay_sets_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"--model-args {name}: assay sets --"):
        vllm.connect(Connection(name="org/name", args={name: value}))


@pytest.mark.parametrize("seconds", ["soon", 0, -1, "inf", "nan"])
def test_a_start_timeout_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(
        UsageError, match="--model-args start_timeout: expected a number of seconds above 0, at most a year, found"
    ):
        vllm.connect(Connection(name="org/name", args={"start_timeout": seconds}))


def test_a_path_that_does_not_exist_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match="/no/such/model: there is no such file or folder"):
        vllm.connect(Connection(name="/no/such/model"))
    with pytest.raises(UsageError, match="llama-server/no.gguf: there is no such file or model"):
        llama_server.connect(Connection(name="no.gguf"))


def test_requests_name_model_and_settings_but_no_port(folder: Path) -> None:
    def endpoint(**args: Any) -> str:
        return vllm.connect(Connection(name=str(folder), args=args)).endpoint

    first = endpoint(dtype="auto")
    assert first == endpoint(dtype="auto", start_timeout=3)
    assert first != endpoint(dtype="float16")
    (folder / "config.json").write_text('{"changed": 1}')
    assert first != endpoint(dtype="auto")


def test_a_change_of_any_byte_of_the_weights_is_another_model(folder: Path) -> None:
    """An edited tensor may lie anywhere in a large file."""
    weights = folder / "model.safetensors"
    content = bytearray(3_000_000)
    weights.write_bytes(content)
    before = vllm.connect(Connection(name=str(folder))).endpoint
    content[150_000] = 1
    weights.write_bytes(content)
    assert vllm.connect(Connection(name=str(folder))).endpoint != before


def test_a_change_of_any_part_of_a_split_file_is_another_model(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    for part in parts:
        part.write_bytes(b"GGUF")
    before = llama_server.connect(Connection(name=str(parts[0]))).endpoint
    parts[1].write_bytes(b"GGUF!")
    assert llama_server.connect(Connection(name=str(parts[0]))).endpoint != before
    parts[1].unlink()
    with pytest.raises(UsageError, match="has 2 parts, and .*m-00002-of-00002.gguf is missing"):
        llama_server.connect(Connection(name=str(parts[0])))


@pytest.mark.parametrize("provider", [vllm, sglang, llama_server], ids=["vllm", "sglang", "llama-server"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chat_template", "FOLDER/chat.jinja"),
        ("lora", "FOLDER/chat.jinja"),
        ("lora_scaled", "FOLDER/chat.jinja:0.5"),
        ("lora_modules", "style=FOLDER/adapter"),
        ("lora_modules", ["other=org/name", "style=FOLDER/adapter"]),
        ("lora_modules", {"name": "style", "path": "FOLDER/adapter"}),
        ("lora_modules", '{"name": "style", "path": "FOLDER/adapter"}'),
    ],
)
def test_a_file_that_an_argument_names_counts_by_its_content(
    folder: Path, tmp_path: Path, provider: Any, name: str, value: Any
) -> None:
    files = [tmp_path / "chat.jinja", tmp_path / "adapter" / "adapter_config.json"]
    files[1].parent.mkdir()
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    value = json.loads(json.dumps(value).replace("FOLDER", str(tmp_path)))
    model = tmp_path / "m.gguf" if provider is llama_server else folder
    endpoints = []
    for content in ("one", "two", "one"):
        for file in files:
            file.write_text(content)
        endpoints.append(provider.connect(Connection(name=str(model), args={name: value})).endpoint)
    assert endpoints[0] == endpoints[2] != endpoints[1]


def test_files_that_a_server_writes_and_folders_without_a_model_do_not_count(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one")
    (tmp_path / "pictures").mkdir()
    args = {
        "log_file": str(tmp_path / "log"),
        "allowed_local_media_path": str(tmp_path / "pictures"),
        "x": "~nobody",
    }
    before = vllm.connect(Connection(name=str(folder), args=args)).endpoint
    (tmp_path / "log").write_text("two")
    (tmp_path / "pictures" / "cat.png").write_text("two")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "times").write_text("now")
    assert vllm.connect(Connection(name=str(folder), args=args)).endpoint == before


def test_a_name_of_the_hub_counts_by_the_files_in_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--name"
    for commit in ("aaa", "bbb"):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "model.safetensors").write_text(commit)
    (repository / "refs").mkdir()
    for provider in (vllm, sglang):
        endpoints = {}
        for commit in ("aaa", "bbb", "none"):
            (repository / "refs" / "main").write_text(commit)
            endpoints[commit] = provider.connect(Connection(name="org/name")).endpoint
        assert len(set(endpoints.values())) == 3
        revisions = [
            provider.connect(Connection(name="org/name", args={"revision": commit})).endpoint
            for commit in ("aaa", "bbb")
        ]
        assert revisions[0] != revisions[1]


def test_hashing_a_large_file_is_told_and_done_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    weights = folder / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(64_000_000)
    # A hash is cached once the file is two seconds old.
    wait_until(lambda: time.time() - weights.stat().st_ctime > 2.1)
    spec_ = spec(f"vllm/{folder}")
    sentences: list[str] = []
    with observed([lambda event: sentences.append(text_of(event))]):
        first, second = (connect(spec_, spec_.model).endpoint for _ in range(2))
    assert first == second
    assert sentences == ["hashing model.safetensors (0.1 GB), once"]
    with weights.open("r+b") as file:
        file.seek(31_234_567)
        file.write(b"!")
    assert connect(spec_, spec_.model).endpoint != first


def test_a_download_is_allowed_by_the_user_only(programs: StandInPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    send(vllm.connect(Connection(name="org/name")), CHAT)
    assert programs.starts()[0]["env"]["HF_HUB_OFFLINE"] == "0"


# --serve


def spec(model: str = "openai/m", **values: Any) -> RunSpec:
    return RunSpec(suite="evaluate", options=EvaluateOptions(), model=model, **values)


def test_the_command_of_serve_is_split_into_words_without_a_shell(programs: StandInPrograms, tmp_path: Path) -> None:
    command = f"{programs.serve} --say 'two words; {{key}} $HOME' --json '{{\"a\": 1}}'"
    model = connect(spec("openai/my model", serve=command), "openai/my model")
    (reply,) = send(model, CHAT)
    (start,) = programs.starts()
    port = start["argv"][start["argv"].index("--port") + 1]
    assert start["argv"] == [
        *("--model", "my model", "--port", port, "--say", f"two words; {server_key()} $HOME"),
        *("--json", '{"a": 1}'),
    ]
    assert reply.text == "a message"
    assert model.endpoint.startswith("serve:")


def test_serve_measures_likelihoods_with_openai_completions(programs: StandInPrograms) -> None:
    model = connect(spec("openai-completions/m", serve=programs.serve), "openai-completions/m")
    assert LIKELIHOOD in model.can
    text, likelihood = send(model, TEXT, Request(model="m", prompt=None, continuation="cde"))
    assert (text.text, likelihood.data["logprob"]) == ("a text", -1.5)


def test_a_server_without_a_health_path_is_ready_when_it_lists_its_models(programs: StandInPrograms) -> None:
    programs.behave("no-health")
    assert send(connect(spec(serve=programs.serve), "openai/m"), CHAT)[0].text == "a message"


def test_serve_is_for_the_main_model_only(programs: StandInPrograms) -> None:
    spec_ = spec(serve=programs.serve)
    assert connect(spec_, Role("openai/judge", "http://127.0.0.1:9/v1")).endpoint == "http://127.0.0.1:9/v1"
    assert connect(spec_, Role("openai/m", "http://127.0.0.1:9/v1")).endpoint == "http://127.0.0.1:9/v1"
    assert connect(spec_, Role("openai/m", mark="score")).endpoint == connect(spec_, "openai/m").endpoint


def test_a_judge_that_names_the_main_model_gets_its_arguments() -> None:
    main = spec("vllm/org/name")
    main = replace(main, model_args={"dtype": "auto"})
    assert connect(main, Role("vllm/org/name", mark="score")).endpoint == endpoint_of(dtype="auto")
    assert connect(main, Role("vllm/org/judge", mark="score")).endpoint != endpoint_of(dtype="auto")


def endpoint_of(**args: Any) -> str:
    return vllm.connect(Connection(name="org/name", args=args)).endpoint


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        ("openai/m", {"serve": "run --model {model}"}, "--serve needs {port}"),
        ("openai/m", {"serve": "run 'x {port}"}, "--serve: No closing quotation"),
        (
            "local/m",
            {"serve": "run {port}"},
            "--serve is for --model openai/NAME and openai-completions/NAME",
        ),
        ("openai/m", {"serve": "run {port}", "base_url": "http://x/v1"}, "pass one of them"),
    ],
)
def test_a_wrong_use_of_serve_is_refused_before_the_run(model: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        connect(spec(model, **values), model)


# Starts that fail.


def test_a_missing_program_is_named_with_what_to_install(
    programs: StandInPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs.bin / "vllm").unlink()
    error = fail(vllm.connect(Connection(name="org/name")))
    assert isinstance(error, ModelRefused)
    assert str(error).startswith("the program 'vllm' is not on PATH. Install vLLM: pip install vllm.")


def test_a_server_that_ends_early_is_shown_with_its_last_words_and_its_command(
    programs: StandInPrograms, tmp_path: Path
) -> None:
    programs.behave("exit 3")
    error = fail(sglang.connect(Connection(name="org/name", args={"tp": 8})))
    assert isinstance(error, ModelRefused)
    first, *lines = str(error).splitlines()
    assert first.startswith(f"sglang ended with exit code 3 before it was ready. The command was: {programs.bin}")
    assert "--api-key *** --tp 8" in first
    log = next((tmp_path / "cache" / "servers").glob("sglang-*.log"))
    assert first.endswith(f"The last lines of its log, {log}:")
    assert lines == ["  loading weights 90%", "  torch.OutOfMemoryError: the GPU is too small"]
    assert server_key() not in str(error)
    assert log.stat().st_mode & 0o077 == 0


def test_a_server_that_never_becomes_healthy_is_stopped_at_the_limit(programs: StandInPrograms) -> None:
    programs.behave("unhealthy")
    # Long enough for the stand-in to listen on any machine would be too slow a test, so the answer may be missing.
    error = fail(vllm.connect(Connection(name="org/name", args={"start_timeout": 0.5})))
    assert isinstance(error, StopRun)
    assert str(error).startswith("vllm was not ready within 0.5 s and was stopped (")
    assert "--model-args start_timeout=SECONDS sets the limit" in str(error)
    assert programs.alive() == []


def test_all_requests_fail_with_the_one_start_that_failed(programs: StandInPrograms) -> None:
    programs.behave("exit 1")

    async def use(model: Model) -> list[BaseException | Response]:
        return await asyncio.gather(*[model.send(CHAT, 1) for _ in range(8)], return_exceptions=True)

    errors = with_model(vllm.connect(Connection(name="org/name")), use)
    assert len(set(map(str, errors))) == 1
    assert len(programs.starts()) == 1


def test_a_port_that_another_program_has_taken_is_replaced(programs: StandInPrograms) -> None:
    programs.behave("occupied")
    sentences: list[str] = []
    token = notify.set(lambda event: sentences.append(text_of(event)))
    try:
        (reply,) = send(vllm.connect(Connection(name="org/name")), CHAT)
    finally:
        notify.reset(token)
    first, second = programs.starts()
    ports = [start["argv"][start["argv"].index("--port") + 1] for start in (first, second)]
    assert ports[0] != ports[1]
    assert reply.address == f"http://127.0.0.1:{ports[1]}/v1"
    assert f"vllm could not listen on port {ports[0]}; trying another one" in sentences
    assert programs.alive() == []


STRANGER = """
import http.server, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
while not (folder / "port").exists():
    time.sleep(0.02)
class Stranger(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Stranger.count += 1
        self.send_response(200)
        self.end_headers()
        if Stranger.count == 3:
            (folder / "asked").touch()
    def do_POST(self):
        (folder / "misled").touch()
        self.send_response(500)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int((folder / "port").read_text())), Stranger).serve_forever()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process listens on a port")
def test_another_program_that_answers_on_the_port_is_not_taken_for_the_server(
    programs: StandInPrograms,
) -> None:
    """The port is not held after the first attempt. The server notices only at the end of its start."""
    programs.behave("stranger")
    command = [sys.executable, "-S", "-c", STRANGER, str(programs.records)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as stranger:
        try:
            (reply,) = send(vllm.connect(Connection(name="org/name")), CHAT)
        finally:
            stranger.kill()
    assert len(programs.starts()) == 3
    third = programs.starts()[2]["argv"]
    assert reply.address == f"http://127.0.0.1:{third[third.index('--port') + 1]}/v1"
    assert not (programs.records / "misled").exists()
    assert programs.alive() == []


def text_of(event: Event) -> str:
    return event.text if isinstance(event, Noted) else ""


# Lives and ends.


def test_roles_with_the_same_model_share_a_server_and_the_last_one_stops_it(
    programs: StandInPrograms,
) -> None:
    async def use() -> None:
        main, judge = (vllm.connect(Connection(name="org/name", args={"dtype": "auto"})) for _ in range(2))
        await asyncio.gather(*[model.send(CHAT, 1) for model in (main, judge) for _ in range(4)])
        (start,) = programs.starts()
        await main.close()
        assert is_alive(start["pid"])
        await judge.send(CHAT, 1)
        await judge.close()
        assert not is_alive(start["pid"])

    asyncio.run(use())


def test_workers_of_a_dead_server_are_killed_although_they_left_its_session(
    programs: StandInPrograms,
) -> None:
    programs.behave("worker")

    async def use(model: Model) -> None:
        await model.send(CHAT, 1)
        worker = programs.left_behind("worker")
        assert is_alive(worker)
        kill(programs.starts()[0]["pid"])
        wait_until(lambda: not is_alive(worker))

    with_model(vllm.connect(Connection(name="org/name")), use)


def test_what_ignores_sigterm_is_killed_after_the_grace(programs: StandInPrograms, tmp_path: Path) -> None:
    programs.behave("stubborn worker")

    async def run() -> ServerProcess:
        command = [str(programs.bin / "vllm"), "--port", str(ReservedPort(hold=False).number)]
        process = ServerProcess(command, server_environment(), tmp_path / "log", tmp_path, grace=0.3)
        await asyncio.to_thread(wait_until, (programs.records / "worker").exists)
        assert len(programs.alive()) == 2
        await process.stop()
        return process

    process = asyncio.run(run())
    assert programs.alive() == []
    assert process.exit_code is None


def test_a_server_that_was_killed_is_started_again_a_few_times(programs: StandInPrograms) -> None:
    async def use(server: ManagedServer) -> None:
        running = await server.ready()
        for number in range(MAX_RESTARTS):
            kill(programs.starts()[number]["pid"])
            await running.process.ended.wait()
            again = await asyncio.gather(*[server.ready() for _ in range(4)])
            assert {each.root for each in again} == {again[0].root}
            assert len(programs.starts()) == number + 2
            running = again[0]
        kill(programs.starts()[MAX_RESTARTS]["pid"])
        await running.process.ended.wait()
        for _ in range(2):
            with pytest.raises(
                StopRun,
                match=f"vllm ended {MAX_RESTARTS + 1} times during the run. The last time it was killed by SIGKILL",
            ):
                await server.ready()

    async def run() -> None:
        model = vllm.connect(Connection(name="org/name"))
        server = acquire(model._launch)
        try:
            await use(server)
        finally:
            await release(server)

    asyncio.run(run())
    assert programs.alive() == []


def test_a_killed_supervisor_takes_the_server_with_it(programs: StandInPrograms) -> None:
    programs.behave("helper")

    async def use(model: Model) -> None:
        await model.send(CHAT, 1)
        (start,) = programs.starts()
        server = acquire(model._launch)  # type: ignore[attr-defined]
        process = (await server.ready()).process
        await release(server)
        kill(process._supervisor.pid)
        await process.ended.wait()
        helper = programs.left_behind("helper")
        wait_until(lambda: not is_alive(start["pid"]) and not is_alive(helper))
        assert (await model.send(CHAT, 1)).text == "a message"

    with_model(vllm.connect(Connection(name="org/name")), use)
    assert programs.alive() == []


def test_a_model_closed_during_the_start_of_its_server_leaves_no_process(programs: StandInPrograms) -> None:
    programs.behave("unhealthy")

    async def run() -> None:
        model = vllm.connect(Connection(name="org/name"))
        request = asyncio.create_task(model.send(CHAT, 1))
        while not programs.starts():  # noqa: ASYNC110 - another process writes the file
            await asyncio.sleep(0.02)
        request.cancel()
        await model.close()

    asyncio.run(run())
    assert len(programs.starts()) == 1
    assert programs.alive() == []


def test_descendants_are_the_same_by_proc_and_by_ps(tmp_path: Path) -> None:
    """The second way is for systems without /proc."""
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    by_proc = supervisor._parents_from_proc()
    by_ps = supervisor._parents_from_ps()
    # Processes come and go between the two lists. Process 1 and this one stay.
    for pid in (1, os.getpid()):
        assert by_proc[pid] == by_ps[pid]


def test_the_tail_of_a_log_has_no_colours_and_no_key(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(b"line %d" % number for number in range(30)) + b"\n\n\x1b[31mkey abc\x1b[0m\r\n\xff")
    assert read_tail(log, "abc", 3) == ["line 29", "key [redacted]", "\ufffd"]
    assert read_tail(tmp_path / "missing", "abc") == []


def test_of_a_log_that_has_become_too_long_the_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n")
    with log.open("ab") as file:
        file.truncate(supervisor.MAX_LOG_BYTES)
    with log.open("ab") as file:
        file.write(b"\nlast line\n")
    with log.open("a+b") as file:
        supervisor._shorten(file.fileno())
        file.write(b"next line\n")
    assert log.stat().st_size < 2 * supervisor.KEEP_LOG_BYTES
    lines = log.read_bytes().splitlines()
    assert lines[0] == b"(assay removed the earlier lines)"
    assert lines[-2:] == [b"last line", b"next line"]
