"""Address, reasoning and cost of a call: read from the reply, logged, and kept on replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.core.protocols import Context
from assay.core.roles import Connection
from assay.core.types import Request, Response
from assay.models import openai_completions, script

from servers.echoing import EchoServer
from servers.endpoint import USAGE, Endpoint
from support.gateway_run import CHAT, gateway_run_at, post

QUESTION = [{"role": "user", "content": "hello"}]


async def ask(ctx: Context) -> Response:
    """Ask the model of a case as a solver does."""
    asker = ctx.model()
    return await asker.ask(Request(model=asker.name, endpoint=asker.endpoint, messages=QUESTION))


def logged_response(folder: Path, message: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    """The response in the log after one call to an endpoint whose replies have these fields."""

    async def main() -> Any:
        async with Endpoint() as endpoint:
            endpoint.message = message
            endpoint.usage = USAGE | usage
            lab = gateway_run_at(folder, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                await ask(ctx)

            await lab.done(solve)
            [call] = lab.calls()
            assert call["response"].pop("address") == endpoint.url
            return call["response"]

    response: dict[str, Any] = asyncio.run(main())
    return response


def test_a_call_has_the_address_and_nothing_the_endpoint_did_not_send(tmp_path: Path) -> None:
    assert logged_response(tmp_path, {}, {}) == {
        "text": "reply 1",
        "finish": "stop",
        "usage": {"input": 7, "output": 2},
    }


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_logged_apart_from_the_text(tmp_path: Path, name: str) -> None:
    response = logged_response(tmp_path, {name: "Let me see."}, {})
    assert (response["text"], response["reasoning"]) == ("reply 1", "Let me see.")


@pytest.mark.parametrize("reasoning", [None, "", ["a"], {"text": "a"}])
def test_reasoning_that_is_no_text_is_ignored(tmp_path: Path, reasoning: Any) -> None:
    assert "reasoning" not in logged_response(tmp_path, {"reasoning": reasoning}, {})


@pytest.mark.parametrize(("stated", "logged"), [(0.00125, 0.00125), (0, 0.0), (1, 1.0)])
def test_cost_is_logged_where_the_endpoint_states_it(tmp_path: Path, stated: Any, logged: float) -> None:
    """A price of 0 is a price: free models state it."""
    assert logged_response(tmp_path, {}, {"cost": stated})["cost"] == logged


@pytest.mark.parametrize("stated", [None, "0.1", True, {"total": 1}])
def test_cost_that_is_no_number_is_ignored(tmp_path: Path, stated: Any) -> None:
    assert "cost" not in logged_response(tmp_path, {}, {"cost": stated})


def test_replay_keeps_reasoning_cost_and_address(tmp_path: Path) -> None:
    """A resumed case gets the whole response from the log, and nothing is sent."""
    responses: list[Response] = []

    async def stopped(inputs: Any, ctx: Context) -> None:
        responses.append(await ask(ctx))
        raise StopRun("as if killed")

    async def whole(inputs: Any, ctx: Context) -> None:
        responses.append(await ask(ctx))

    async def main() -> None:
        async with Endpoint() as endpoint:
            endpoint.message = {"reasoning_content": "Let me see."}
            endpoint.usage = USAGE | {"cost": 0.5}
            lab = gateway_run_at(tmp_path, endpoint)
            assert isinstance(await lab.start(stopped), StopRun)
            await lab.done(whole)
            assert len(endpoint.asked) == 1
            assert responses[0].address == endpoint.url

    asyncio.run(main())
    first, again = responses
    assert first == again
    assert (first.reasoning, first.cost) == ("Let me see.", 0.5)


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_a_foreign_sdk_have_all_three(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        async with Endpoint() as endpoint:
            endpoint.message = {"reasoning_content": "Let me see."}
            endpoint.usage = USAGE | {"cost": 0.5}
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                await post(await ctx.base_url() + "/chat/completions", {**CHAT, "stream": stream})

            await lab.done(solve)
            [call] = lab.calls()
            response = call["response"]
            assert (response["address"], response["cost"]) == (endpoint.url, 0.5)
            assert response["reasoning"] == "Let me see."
            assert "Let me see." not in response["text"]

    asyncio.run(main())


def test_a_text_completion_has_its_address_and_cost(tmp_path: Path) -> None:
    async def main() -> None:
        async with Endpoint() as endpoint:
            endpoint.usage = USAGE | {"cost": 0.5}
            lab = gateway_run_at(tmp_path, endpoint, "openai-completions")

            async def solve(inputs: Any, ctx: Context) -> None:
                asker = ctx.model()
                response = await asker.ask(Request(model=asker.name, endpoint=asker.endpoint, prompt="a"))
                assert (response.address, response.cost) == (endpoint.url, 0.5)

            await lab.done(solve)

    asyncio.run(main())


def test_a_likelihood_has_its_address(tmp_path: Path) -> None:
    async def main() -> None:
        async with EchoServer() as server:
            connection = Connection(name="org/Fake-1.0", base_url=server.url, timeout=20.0)
            model = openai_completions.connect(connection)
            request = Request(model="m", prompt="a b", continuation=" c")
            assert (await model.send(request, 1)).address == server.url
            await model.close()

    asyncio.run(main())


def test_a_log_that_serves_as_a_script_keeps_the_reasoning(tmp_path: Path) -> None:
    logged_response(tmp_path, {"reasoning": "Let me see."}, {"cost": 0.5})
    model = script.connect(Connection(name=str(tmp_path / "calls.jsonl")))
    response = asyncio.run(model.send(Request(model="m", messages=QUESTION), 1234))
    assert (response.text, response.reasoning) == ("reply 1", "Let me see.")
    # The cost is that of the recorded call: a script costs nothing and has no address.
    assert (response.cost, response.address) == (None, "")
