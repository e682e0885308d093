"""The embedded model (the real one): replies, repeatability, error messages, and a quiet exit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core import registry
from assay.core.errors import MissingExtra, ModelError, UsageError
from assay.core.events import Computing, Event, notify
from assay.core.roles import Connection
from assay.core.types import Case, Request, Response
from assay.engine.caller import Caller, CallLedger
from assay.engine.connect import connect
from assay.engine.permits import Permits
from assay.journal.journal import Journal
from assay.models import local
from assay.models.llama.server import default_threads, physical_cores

from support.engine_run import facts

pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
SOURCE = str(Path(assay.__file__).parents[1])
FRANCE = "The capital of France is"


def text(prompt: str, **params: Any) -> Request:
    return Request(model="local", prompt=prompt, params={"max_tokens": 12, "temperature": 0.0, **params})


def chat(content: str, **params: Any) -> Request:
    messages = [{"role": "user", "content": content}]
    return Request(model="local", messages=messages, params={"max_tokens": 12, "temperature": 0.0, **params})


def ask(*requests: Request, seeds: list[int] | None = None, timeout: float = 60.0, **args: Any) -> list[Any]:
    """Responses, or the failures, of requests sent side by side to one model."""

    async def send() -> list[Any]:
        model = local.connect(Connection(name="smollm2", timeout=timeout, concurrency=4, args=args))
        pairs = zip(requests, seeds or [1] * len(requests), strict=True)
        try:
            return await asyncio.gather(*[model.send(*pair) for pair in pairs], return_exceptions=True)
        finally:
            await model.close()

    return asyncio.run(send())


def test_calls_do_not_pay_for_the_calls_before_them(weights: Path, tmp_path: Path) -> None:
    """The model computes one after the other, so the times of all calls fit into the time of the run."""
    case = Case(0, "k", "s", "m", "", None)

    async def main() -> None:
        model = local.connect(Connection(name="smollm2"))
        journal = Journal(tmp_path, [], [])
        ledger = CallLedger(journal, lambda _: None, None, None)
        caller = Caller(facts("local/smollm2", model), model, Permits(4), ledger, seed=1, max_retries=0)
        asker = caller.bind(case, "ask", 1, {})
        began = time.perf_counter()
        calls = await asyncio.gather(*(asker.call(text(f"{number} and")) for number in range(4)))
        assert 0 < sum(call.seconds for call in calls) <= time.perf_counter() - began
        assert {call.response.waited for call in calls if call.response} == {0.0}
        journal.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("size", "cores", "reply", "prompt"),
    [
        (98_000_000, 8, 1, 2),
        (98_000_000, 1, 1, 1),
        (1_100_000_000, 8, 2, 2),
        (4_400_000_000, 8, 8, 8),
        (4_400_000_000, 16, 9, 9),
        (4_400_000_000, 2, 2, 2),
    ],
)
def test_threads_follow_the_size_of_the_model_and_the_cores(size: int, cores: int, reply: int, prompt: int) -> None:
    assert default_threads(size, cores) == (reply, prompt)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 2), ("100000 100000", 1), ("800000 100000", 2)])
def test_cores_are_those_that_the_process_may_use(tmp_path: Path, quota: str, cores: int) -> None:
    """Four CPUs on two cores, and the quota of a container."""
    for cpu in range(8):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n")
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpu.max").write_text(quota)
    assert physical_cores(range(4), tmp_path) == cores


def test_text_goes_out_as_it_is_and_messages_in_the_template(weights: Path) -> None:
    """A prompt is continued as it stands; messages are put into the chat template, which adds tokens."""
    plain, turned = ask(text(FRANCE), chat(FRANCE))
    assert isinstance(plain, Response)
    assert plain.text.startswith(" Paris")
    assert plain.usage is not None
    assert plain.usage.input == 5
    assert turned.usage.input > plain.usage.input


def test_a_reply_says_why_it_ended(weights: Path) -> None:
    """`finish` is "length" at the limit of tokens and "stop" at a stop text, which is left out."""
    cut, stopped = ask(text(FRANCE, max_tokens=3), text(FRANCE, max_tokens=30, stop=["\n", "never"]))
    assert (cut.finish, cut.usage.output) == ("length", 3)
    assert (stopped.finish, "\n" in stopped.text) == ("stop", False)


def test_a_request_without_a_limit_ends_at_the_default(weights: Path) -> None:
    """A small model may repeat itself until its context is full, which takes minutes. A limit of the request wins."""
    without = Request(model="local", prompt="Once upon a time", params={"temperature": 0.0})
    none, own, other = (
        msgspec.structs.replace(without, params={**without.params, name: value})
        for name, value in (("max_tokens", None), ("max_tokens", 7), ("max_completion_tokens", 8))
    )
    replies = ask(without, none, own, other, max_tokens=5)
    assert [(reply.finish, reply.usage.output) for reply in replies] == [
        ("length", 5),
        ("length", 5),
        ("length", 7),
        ("length", 8),
    ]


def test_the_default_limit_is_part_of_the_identity(weights: Path) -> None:
    """Replies that were cut elsewhere are other replies. So is a reply in another chat template."""
    plain = local.connect(Connection(name="smollm2")).endpoint
    cut = local.connect(Connection(name="smollm2", args={"max_tokens": 5})).endpoint
    templated = local.connect(Connection(name="smollm2", args={"chat_template": "zephyr"})).endpoint
    assert plain.endswith(f":max_tokens={local.DEFAULT_MAX_TOKENS}")
    assert len({plain, cut, templated}) == 3


def test_tokens_are_reported_while_a_reply_is_written(weights: Path) -> None:
    """The numbers grow, and the last report says that nothing is computed any more."""
    events: list[Event] = []

    async def main() -> None:
        notify.set(events.append)
        model = local.connect(Connection(name="smollm2"))
        await model.send(text("Once upon a time", max_tokens=150), 1)

    asyncio.run(main())
    assert all(isinstance(event, Computing) for event in events)
    *reports, end = [event for event in events if isinstance(event, Computing)]
    written = [report.written for report in reports]
    assert written == sorted(written)
    assert 0 < written[-1] <= 150
    assert (reports[-1].read, reports[-1].prompt) == (4, 4)
    assert reports[-1].per_second > 0
    assert end == (0, 0, 0, 0.0)


def test_greedy_replies_repeat(weights: Path) -> None:
    """At temperature 0 and four requests at a time, replies depend on neither order nor company."""
    things = ("boats", "apples", "letters", "lamps", "chairs", "tickets", "stones", "maps")
    requests = [text(f"Tom has {n} {thing}.", max_tokens=5) for n, thing in enumerate(things, start=3)]
    first = [reply.text for reply in ask(*requests)]
    again = [reply.text for reply in ask(*reversed(requests))]
    assert first == again[::-1]


def test_the_seed_decides_at_a_higher_temperature(weights: Path) -> None:
    """Equal seeds give equal replies and other seeds other ones, when sampling."""
    story = text("Once upon a time", temperature=0.8)
    one, two, one_again = ask(story, story, story, seeds=[1, 2, 1])
    assert one.text == one_again.text
    assert one.text != two.text


def test_too_long_a_prompt_is_a_context_overflow(weights: Path) -> None:
    """A prompt beyond the slot's context counts against the model and is not tried again."""
    (error,) = ask(text("word " * 400), n_ctx=256)
    assert isinstance(error, ModelError)
    assert (error.failure.kind, error.failure.status, error.retry) == (
        "context_overflow",
        "subject_error",
        False,
    )


def test_the_context_is_per_slot(weights: Path) -> None:
    """`n_ctx` holds for each of two slots, though llama.cpp itself divides one number among them."""
    (reply,) = ask(text("word " * 100, max_tokens=2), n_ctx=128, n_parallel=2)
    assert reply.usage.input > 90


def test_a_timeout_frees_the_slot(weights: Path) -> None:
    """A generation that takes too long fails by itself; it is ended, and the next one gets its slot."""
    slow, quick = text("Once upon a time", max_tokens=4000), text(FRANCE, max_tokens=2)
    late, answer = ask(slow, quick, timeout=4.0)
    assert isinstance(late, ModelError)
    assert late.failure.kind == "timeout"
    assert answer.text.startswith(" Paris")


@pytest.mark.parametrize(
    "request_",
    [
        text(FRANCE, temperature="warm"),
        Request(model="local", messages=[{"content": "nobody says this"}]),
        text("half a pair: \ud800"),
    ],
)
def test_a_bad_request_is_rejected(weights: Path, request_: Request) -> None:
    """What llama.cpp cannot read, whether it answers or raises, is a failure that is not tried again."""
    (error,) = ask(request_)
    assert isinstance(error, ModelError)
    assert (error.failure.kind, error.retry) == ("rejected", False)


def test_a_path_works_like_a_name(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint is the weights' hash: the same for the name, the path and the relative path."""
    monkeypatch.chdir(weights.parent)
    names = ("smollm2", str(weights), weights.name)
    endpoints = {local.connect(Connection(name=name)).endpoint for name in names}
    assert endpoints == {"local:b179c9523d0e6a0f:max_tokens=1024"}


def test_missing_weights_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched at run time; the message has the command that fetches."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="Run: assay models pull smollm2"):
        local.connect(Connection(name="smollm2"))


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    """A missing file and one of another kind are refused before anything is asked."""
    (tmp_path / "notes.gguf").write_text("hello")
    with pytest.raises(UsageError, match="is not a GGUF file"):
        local.connect(Connection(name=str(tmp_path / "notes.gguf")))
    with pytest.raises(UsageError, match=r"local/nowhere\.gguf: there is no such file"):
        local.connect(Connection(name="nowhere.gguf"))


def test_a_damaged_model_is_refused_by_the_first_request(tmp_path: Path, weights: Path) -> None:
    """Weights that llama.cpp cannot load fail the call with a kind that stops the run, not the process."""
    with weights.open("rb") as whole:
        (tmp_path / "half.gguf").write_bytes(whole.read(5_000_000))
    model = local.connect(Connection(name=str(tmp_path / "half.gguf")))
    with pytest.raises(ModelError, match="cannot load") as caught:
        asyncio.run(model.send(text(FRANCE), 1))
    assert caught.value.failure.kind == "not_found"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"n_ctx": "many"}, "--model-args n_ctx: expected a whole number of at least 1, found 'many'"),
        ({"n_ctx": 8193}, "was trained for a context of 8192 tokens"),
        ({"n_gpu_layers": -2}, "--model-args n_gpu_layers: expected a whole number of at least 0, found -2"),
        ({"max_tokens": 0}, "--model-args max_tokens: expected a whole number of at least 1, found 0"),
        ({"chat_template": "chatm"}, "no chat template named 'chatm'; did you mean 'chatml'"),
        ({"n_thread": 2}, "there is no argument of local named 'n_thread'; did you mean 'n_threads'"),
    ],
)
def test_arguments_are_checked(weights: Path, args: dict[str, Any], message: str) -> None:
    """A mistyped argument is refused, never ignored."""
    spec = assay.spec("memory-test", model="local/smollm2", model_args=args)
    with pytest.raises(UsageError, match=message):
        connect(spec, spec.model)


def test_arguments_may_be_text(weights: Path) -> None:
    """Numbers may come as text from a command line."""
    (reply,) = ask(text(FRANCE, max_tokens=2), n_threads="1")
    assert reply.text.startswith(" Paris")


def test_nobody_else_can_use_the_server(weights: Path) -> None:
    """llama.cpp opens a port on loopback. Without the random key it answers 401."""
    model = local.connect(Connection(name="smollm2"))
    asyncio.run(model.send(text(FRANCE, max_tokens=1), 1))
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{model._server.native.listening_address}/v1/models", timeout=10)
    with caught.value as error:
        assert error.code == 401


def python(code: str, *options: str, path: str = SOURCE) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)


SCRIPT = """
import asyncio
from assay.core.roles import Connection
from assay.core.errors import ModelError
from assay.core.types import Request
from assay.journal.journal import Journal
from assay.models import local

async def main():
    model = local.connect(Connection(name="smollm2", timeout={timeout}))
    try:
        await model.send(Request(model="local", prompt={prompt!r}, params={{"max_tokens": {tokens}}}), 1)
    except ModelError:
        pass

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("timeout", "prompt", "tokens"),
    [(60, FRANCE, 4), (1, "Once upon a time", 4000), (1, "word " * 6000, 4)],
    ids=["after a reply", "in a reply", "in a long prompt"],
)
def test_the_process_is_quiet_and_ends(weights: Path, timeout: float, prompt: str, tokens: int) -> None:
    """Nothing is printed, and the process ends by itself with 0, even in the middle of a computation."""
    started = time.monotonic()
    done = python(SCRIPT.format(timeout=timeout, prompt=prompt, tokens=tokens))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert time.monotonic() - started < 30


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """In an environment without xllamacpp the message is the command that installs it."""
    assert msgspec.__file__ is not None
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    code = (
        "from assay.core.roles import Connection; from assay.core.errors import MissingExtra\n"
        "from assay.models import local\n"
        "try: local.connect(Connection(name='smollm2'))\n"
        "except MissingExtra as error: print(error)"
    )
    done = python(code, "-S", path=f"{SOURCE}{os.pathsep}{tmp_path}")
    assert done.stdout.strip() == str(MissingExtra("the provider 'local'", "local")), done.stderr


def test_the_provider_is_found_and_the_weights_are_none() -> None:
    """The file name makes the provider; folders beside it are not taken for one."""
    assert "local" in registry.names("model")
    assert not {"llama", "likelihood", "calling"} & set(registry.names("model"))
