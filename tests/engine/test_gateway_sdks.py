"""Foreign SDKs on models without an endpoint, in a whole run, and the real openai package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.core.protocols import Context
from assay.core.spec import build
from assay.runner import api
from assay.suites import find_options

from servers.endpoint import VECTOR, Endpoint
from support.gateway_run import CHAT, GatewayRun, Told, gateway_run_at, post


def test_an_embedded_model_answers_foreign_sdks(tmp_path: Path) -> None:
    """Without an endpoint a chat request becomes an ordinary one and its reply OpenAI's JSON or stream."""
    script = tmp_path / "replies.jsonl"
    script.write_text('{"text": "first", "finish": "length"}\n{"text": "second"}\n')
    told: list[list[Told]] = []

    async def solve(inputs: Any, ctx: Context) -> None:
        url = await ctx.base_url() + "/chat/completions"
        body = {**CHAT, "max_completion_tokens": 5, "stop": "x", "n": 1}
        told.append([await post(url, body), await post(url, {**body, "stream": True})])
        if len(told) == 1:
            raise StopRun("as if killed")

    async def main() -> None:
        run = tmp_path / "run"
        run.mkdir()
        lab = GatewayRun(run, f"script/{script}")
        await lab.start(solve)
        await lab.done(solve)
        first, second = lab.calls()
        assert first["request"]["messages"] == CHAT["messages"]
        assert first["request"]["params"] == {"max_tokens": 5, "stop": ["x"]}
        assert (first["hash"], second["n"]) == (second["hash"], 1)

    asyncio.run(main())
    (plain, stream), again = told
    assert [answer.body for answer in again] == [plain.body, stream.body]
    assert plain.json["object"] == "chat.completion"
    assert plain.json["choices"][0]["message"] == {"role": "assistant", "content": "first"}
    assert plain.json["choices"][0]["finish_reason"] == "length"
    chunk, done = stream.body.decode().split("\n\n")[:2]
    assert json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"]["content"] == "second"
    assert done == "data: [DONE]"


def test_what_an_embedded_model_cannot_do_is_said(tmp_path: Path) -> None:
    """Embeddings, tools and several choices need an endpoint: 501 with a sentence, and nothing is asked."""
    script = tmp_path / "replies.jsonl"
    script.write_text('{"text": "first"}\n')

    async def solve(inputs: Any, ctx: Context) -> None:
        base = await ctx.base_url()
        for path, body in [
            ("/embeddings", {"input": "a"}),
            ("/chat/completions", {"messages": "a"}),
            ("/chat/completions", {**CHAT, "n": 2}),
            ("/chat/completions", {**CHAT, "tools": [{"type": "function"}]}),
        ]:
            told = await post(base + path, body)
            assert (told.status, told.json["error"]["type"]) == (501, "server_error")

    async def main() -> None:
        run = tmp_path / "run"
        run.mkdir()
        lab = GatewayRun(run, f"script/{script}")
        await lab.done(solve)
        assert lab.calls() == []

    asyncio.run(main())


def test_a_run_without_foreign_code_loads_no_server() -> None:
    """The gateway's server is imported only when a solver asks for an address."""
    code = "import sys, assay.runner.api; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SUITE = """
import asyncio, json, urllib.request
from assay.core.protocols import Solver
from assay.core.report import Report
from assay.core.spec import SuiteOptions
from assay.core.suite import CaseContent, ListedRows, Outcome, Suite

class Knock(Suite):
    name, Options = "knock", SuiteOptions
    def __init__(self, spec):
        super().__init__(spec)
        self.solver = KnockSolver()
    def ask_identity(self): return {}
    def rows(self, facts=None): return ListedRows([0, 1], key=str, set="s")
    def case(self, row, subject): return CaseContent(row.data)
    def finish(self, results, run):
        said = [result.records[0].data for result in results]
        return Outcome(Report(notices=[json.dumps(said)]))

class KnockSolver(Solver):
    async def solve(self, inputs, ctx):
        ctx.emit("answer", await asyncio.to_thread(ask, await ctx.base_url(), inputs))

def ask(url, inputs):
    body = {"messages": [{"role": "user", "content": f"{inputs}"}]}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]
"""


def test_a_run_hands_its_gateway_to_solvers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite's solver gets an address from its context, and its calls are counted as the run's."""
    (tmp_path / "knock_suite.py").write_text(SUITE)
    (tmp_path / "model.py").write_text("def answer(prompt, params): return prompt[0]['content'] * 2")
    (tmp_path / "knock-1.dist-info").mkdir()
    (tmp_path / "knock-1.dist-info" / "entry_points.txt").write_text("[assay.suites]\nknock = knock_suite:Knock\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = {"model": f"python/{tmp_path}/model.py:answer", "output_dir": str(tmp_path / "out")}
    run = api.run(build("knock", find_options("knock"), values))
    assert run.exit_code == 0
    assert run.report is not None
    assert json.loads(run.report.notices[0]) == ["00", "11"]
    assert run.summary.spent.calls == 2


def test_the_openai_package_works(tmp_path: Path) -> None:
    """The real SDK chats, streams, embeds, lists models and raises its own errors, without retrying ours."""
    import openai

    async def main() -> None:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)

            async def solve(inputs: Any, ctx: Context) -> None:
                client = openai.AsyncOpenAI(base_url=await ctx.base_url(), api_key="sk-sdk-secret")
                messages = CHAT["messages"]
                reply = await client.chat.completions.create(model="mine", messages=messages)
                assert reply.choices[0].message.content == "reply 1"
                stream = await client.chat.completions.create(model="mine", messages=messages, stream=True)
                said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
                assert "".join(said) == "réply 2\u2028"
                vectors = await client.embeddings.create(model="mine", input="a", encoding_format="float")
                assert vectors.data[0].embedding == VECTOR
                assert [model.id async for model in client.models.list()] == ["gpt-test"]
                endpoint.faults = [500, 500, 500]
                with pytest.raises(openai.InternalServerError):
                    await client.chat.completions.create(model="mine", messages=messages)
                await client.close()

            await lab.done(solve)
            assert len(endpoint.asked) == 6

    asyncio.run(main())
