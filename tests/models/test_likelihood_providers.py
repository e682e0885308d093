"""Likelihoods of recorded replies and of user code, and what happens where a model has none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, ModelError, ModelRefused
from assay.core.protocols import Model
from assay.core.roles import LIKELIHOOD, Connection
from assay.core.types import Case, Request, Response, Usage
from assay.engine.caller import Caller, CallLedger
from assay.engine.permits import Permits
from assay.journal.journal import Journal
from assay.models import openai, openai_completions, python, script

from servers.echoing import EchoServer
from support.engine_run import facts

CASE = Case(0, "k", "set", "subject", "1", None)


def pair(prompt: str | None, continuation: str) -> Request:
    return Request(model="m", prompt=prompt, continuation=continuation)


def send(model: Model, request: Request) -> Response:
    return asyncio.run(model.send(request, 1234))


def write(path: Path, lines: list[dict[str, Any]]) -> Connection:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Connection(name=str(path))


def test_recorded_likelihoods_are_served(tmp_path: Path) -> None:
    """By prompt and continuation; the text that was recorded for the same prompt is another answer."""
    lines: list[dict[str, Any]] = [
        {"prompt": "a", "text": "said"},
        {"prompt": "a", "continuation": " b", "logprob": -1.5, "greedy": True},
        {"continuation": "whole", "logprob": -7},
        {"text": "anything"},
    ]
    model = script.connect(write(tmp_path / "replies.jsonl", lines))
    assert LIKELIHOOD in model.can
    assert send(model, pair("a", " b")).data == {"logprob": -1.5, "greedy": True}
    assert send(model, pair(None, "whole")).data == {"logprob": -7.0, "greedy": False}
    assert send(model, Request(model="m", prompt="a")).text == "said"
    with pytest.raises(ModelError, match="no reply to"):
        send(model, pair("a", " c"))


def test_a_file_without_likelihoods_does_not_offer_them(tmp_path: Path) -> None:
    """The model does not offer likelihoods, so a run that needs them is refused. A line with only half of one is an error."""
    assert LIKELIHOOD not in script.connect(write(tmp_path / "texts.jsonl", [{"text": "x"}])).can
    with pytest.raises(InputError, match="greedy must be true or false"):
        script.connect(write(tmp_path / "half.jsonl", [{"continuation": "x", "logprob": "low"}]))


def test_a_log_of_likelihoods_replays(tmp_path: Path) -> None:
    """The calls.jsonl of a run works as a file of recorded replies, with the same bits."""
    model = python_model(
        tmp_path, "class Model:\n    def loglikelihood(self, a, b): return -0.1 - 0.2, 0\nmodel = Model()"
    )
    first = ask(model, tmp_path, pair("a", " b"), pair(None, "ab"))
    recorded = script.connect(Connection(name=str(tmp_path / "calls.jsonl")))
    again = [send(recorded, request) for request in (pair("a", " b"), pair(None, "ab"))]
    assert [reply.data for reply in again] == [reply.data for reply in first]
    assert again[0].data == {"logprob": -0.30000000000000004, "greedy": False}


def python_model(folder: Path, code: str, name: str = "model") -> python.PythonModel:
    (folder / "mine.py").write_text(code + "\n")
    return python.connect(Connection(name=f"{folder}/mine.py:{name}"))


def ask(model: Model, folder: Path, *requests: Request) -> list[Response]:
    """Send requests through a Caller, which logs them in the folder."""
    journal = Journal(folder, [], [])

    async def all_of_them() -> list[Response]:
        ledger = CallLedger(journal, lambda _: None, None, None)
        asker = Caller(facts("m", model), model, Permits(2), ledger, seed=1234, max_retries=0).bind(CASE, "ask", 1, {})
        return [await asker.ask(request) for request in requests]

    try:
        return asyncio.run(all_of_them())
    finally:
        journal.close()


def test_an_object_may_have_both(tmp_path: Path) -> None:
    """`python/FILE.py:model` answers prompts when called and likelihoods by its method, sync or async."""
    code = (
        "class Model:\n"
        "    def __call__(self, prompt, params): return 'said'\n"
        "    async def loglikelihood(self, context, continuation):\n"
        "        return -float(len(continuation)), context is None\n"
        "model = Model()"
    )
    model = python_model(tmp_path, code)
    assert LIKELIHOOD in model.can
    assert send(model, Request(model="m", prompt="a")).text == "said"
    assert send(model, pair("a", "bcd")).data == {"logprob": -3.0, "greedy": False}
    assert send(model, pair(None, "b")).data == {"logprob": -1.0, "greedy": True}


@pytest.mark.parametrize("returned", ["float('-inf'), True", "'low', True", "-1.0"])
def test_wrong_numbers_are_the_fault_of_the_code(tmp_path: Path, returned: str) -> None:
    """A value that is not a finite number is a failure of the model (user_code)."""
    model = python_model(tmp_path, f"def f(p, q): pass\nf.loglikelihood = lambda a, b: ({returned})", "f")
    with pytest.raises(ModelError) as caught:
        send(model, pair("a", "b"))
    assert caught.value.failure.kind == "user_code"


def test_a_plain_function_has_no_likelihoods(tmp_path: Path) -> None:
    """A plain function has no likelihoods: the request raises ModelError, and the function is not called."""
    model = python_model(tmp_path, "def f(prompt, params): raise SystemExit", "f")
    assert LIKELIHOOD not in model.can
    with pytest.raises(ModelError, match="m cannot do loglikelihood"):
        ask(model, tmp_path, pair("a", "b"))


def test_chat_models_have_no_likelihoods() -> None:
    """A likelihood request raises ModelError and nothing is sent, even without the caller's own check."""
    model = openai.connect(Connection(name="chat", base_url="http://127.0.0.1:1/v1"))
    assert LIKELIHOOD not in model.can
    with pytest.raises(ModelError, match="use openai-completions/chat"):
        send(model, pair("a", "b"))


def test_an_endpoint_without_echo_stops_the_run(tmp_path: Path) -> None:
    """The run halts even after good answers to other requests, because every later likelihood would fail too."""

    async def run() -> None:
        async with EchoServer("echo", "/tokenize") as server:
            model = openai_completions.connect(Connection(name="m", base_url=server.url))
            journal = Journal(tmp_path, [], [])
            ledger = CallLedger(journal, lambda _: None, None, None)
            asker = Caller(facts("m", model), model, Permits(2), ledger, seed=1, max_retries=3).bind(CASE, "ask", 1, {})
            await asker.ask(Request(model="m", prompt="hello"))
            try:
                with pytest.raises(ModelRefused, match="cannot return logprobs of the prompt"):
                    await asker.ask(pair("a", " b"))
                assert ledger.halted is not None
            finally:
                await model.close()
                journal.close()

    asyncio.run(run())


def test_usage_is_metered() -> None:
    """Tokens of all windows count."""

    async def run() -> Response:
        async with EchoServer() as server:
            connection = Connection(name="m", base_url=server.url, args={"max_length": 7})
            model = openai_completions.connect(connection)
            try:
                return await model.send(pair(None, "0123456789"), 1)
            finally:
                await model.close()

    assert asyncio.run(run()).usage == Usage(12, 2)
