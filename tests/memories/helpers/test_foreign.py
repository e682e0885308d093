"""What packages of others need: failures are kept, and what the gateway told an SDK becomes an error of ours."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import openai
import pytest

from assay.core.errors import CaseFailed, MissingExtra, ModelError, UsageError
from assay.memories.helpers.foreign import (
    CallMonitor,
    embed_from_thread,
    embed_rows,
    package_version,
    require_package,
    translate_error,
)

from servers.loopback import LoopbackServer
from support.memories import Model


def raised(status: int, code: str) -> Exception:
    """What the OpenAI SDK raises for an error of the gateway; status 0 is a server that is not there."""
    error = {"message": "it is gone", "code": code}
    with LoopbackServer(lambda _: (status, {"error": error})) as server:
        url = server.url if status else "http://127.0.0.1:9/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            try:
                client.embeddings.create(model="m", input=["text"])
            except openai.OpenAIError as refusal:
                return refusal
    raise AssertionError("nothing was raised")


def test_the_first_failure_is_kept() -> None:
    """However the operation ends; nothing is asked after it, and the next operation begins anew."""
    monitor, asked = CallMonitor("mem0"), []

    def ask(number: int) -> None:
        with monitor.call():
            asked.append(number)
            if number == 1:
                raise RuntimeError("the first")

    def extract() -> None:
        ask(0)
        for number in (1, 2):
            with suppress(RuntimeError):
                ask(number)

    with pytest.raises(RuntimeError, match="the first"), monitor.operation():
        extract()
    assert asked == [0, 1]
    with monitor.operation():
        ask(3)
    assert asked == [0, 1, 3]


def test_the_failed_call_is_told_and_not_what_came_of_it() -> None:
    """A package may raise an error of its own after a failed call."""
    monitor, refusal = CallMonitor("mem0"), raised(502, "server_error")

    def extract() -> None:
        try:
            with monitor.call():
                raise refusal
        except openai.APIStatusError:
            raise KeyError("facts") from None

    with pytest.raises(ModelError, match="it is gone"), monitor.operation():
        extract()


def test_a_failed_endpoint_is_no_fault_of_the_memory() -> None:
    """A refusal of the gateway is; an endpoint that cannot do it is a wrong choice of the user."""
    failed = translate_error("mem0", raised(502, "server_error"))
    assert isinstance(failed, ModelError)
    assert (failed.failure.kind, failed.failure.status) == ("server_error", "infra_error")
    assert isinstance(translate_error("mem0", raised(0, "")), ModelError)
    assert isinstance(translate_error("mem0", raised(410, "gateway")), CaseFailed)
    wrong = translate_error("mem0", raised(501, "gateway"))
    assert isinstance(wrong, UsageError)
    assert "--model" in str(wrong)
    other = KeyError("x")
    assert translate_error("mem0", other) is other


def test_vectors_of_the_run_are_asked_from_a_thread() -> None:
    """In the order of the texts; no texts ask for nothing."""

    async def work() -> tuple[list[list[float]], list[list[float]], Model]:
        model = Model()
        embed = embed_from_thread(model.embed)
        many = await asyncio.to_thread(embed, ["a", "b"])
        assert await embed_rows(model.embed, []) == []
        return many, await asyncio.to_thread(embed, ["b"]), model

    many, one, model = asyncio.run(work())
    assert many[1:] == one
    assert model.embedded == ["a", "b", "b"]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra has the name of the memory. A package that is not there has no version."""
    monkeypatch.setitem(sys.modules, "graphiti_core", None)
    with pytest.raises(MissingExtra, match=r"pip install 'assay\[graphiti\]'"):
        require_package("graphiti_core", "graphiti")
    assert package_version("there-is-no-such-package") == ""
    assert package_version("pytest").startswith("pytest ")
