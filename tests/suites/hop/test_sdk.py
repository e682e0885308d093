"""Functions that bring a client of their own: the real openai package behind the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.fake_openai import FakeOpenAI
from servers.loopback import LoopbackServer, chat
from support.hop_batch import Batch, lines_of, numbered, results_of

ASYNC = """
import openai

async def hop(n, session):
    async with openai.AsyncOpenAI(base_url=await session.base_url(), api_key="none", max_retries=0) as client:
        reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"number {n}"}])
    return {"said": reply.choices[0].message.content}
"""
SYNC = """
import openai

def hop(n, session):
    with openai.OpenAI(base_url=session.base_url(), api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"number {n}"}])
    return {"said": reply.choices[0].message.content}
"""
COMMON = """
import openai

def hop(n):
    with openai.OpenAI(api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"number {n}"}])
    return {"said": reply.choices[0].message.content}
"""
ROWS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as running:
        yield running


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("code", [ASYNC, SYNC, COMMON], ids=["async", "sync", "OPENAI_BASE_URL"])
def test_a_foreign_client_is_metered_and_replayed(tmp_path: Path, server: FakeOpenAI, code: str, workers: int) -> None:
    """Its calls are the run's: counted, stopped by --max-calls, and not asked again by the next start."""
    server.reset()
    batch = Batch(tmp_path, code, numbered(ROWS))
    options = {"model": "openai/fake", "base_url": server.url, "workers": workers}
    if code is COMMON:
        options["shared_endpoint"] = True
    stopped = batch.run(max_calls=3, **options)
    assert (stopped.exit_code, len(server.stats().requests)) == (3, 3)
    run = batch.run(**options)
    assert run.exit_code == 0
    requests = server.stats().requests
    assert sorted(seen.prompt for seen in requests) == [f"number {n}" for n in range(1, ROWS + 1)]
    assert (run.summary.spent.calls, run.summary.this_start["paid"]) == (ROWS, ROWS - 3)
    told = {seen.prompt: seen.reply for seen in requests}
    rows = results_of(run)
    assert [json.loads(row["hop_result"])["said"] for row in rows] == [told[f"number {row['n']}"] for row in rows]


EARLY = """
import os
from functools import partial

URL = os.environ.get("OPENAI_BASE_URL", "")

def named(n):
    return {"url": URL}

hop = FUNCTION
"""


@pytest.mark.parametrize(
    "function", ["named", "partial(named)", "type('T', (), {'__call__': lambda s, n: named(n)})()"]
)
def test_a_client_that_is_made_on_import_finds_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Whatever kind of function the file has, if the run is told so; without a model the variable stays."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    batch = Batch(tmp_path, EARLY.replace("FUNCTION", function), numbered(2))
    assert "elsewhere" in results_of(batch.run(shared_endpoint=True))[0]["hop_result"]
    (tmp_path / "r.jsonl").write_text('{"text": "x"}\n')
    options = {"model": f"script/{tmp_path}/r.jsonl", "shared_endpoint": True}
    run = batch.run(output_dir=str(tmp_path / "two"), **options)
    assert ["//127.0.0.1:" in row["hop_result"] for row in results_of(run)] == [True, True]


PORTS = """
import os
from pathlib import Path

def ports():
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    listening = {f"socket:[{line[9]}]" for line in lines if line[3] == "0A"}
    own = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists() or each.is_symlink()}
    return own & listening
"""
QUIET = f"""{PORTS}
with open("PATH", "a") as log:
    log.write("imported\\n")

def hop(n):
    return {{"url": os.environ.get("OPENAI_BASE_URL", ""), "listens": bool(ports() - BEFORE)}}
"""


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs /proc")
def test_a_run_opens_no_port_changes_no_variable_and_imports_once(tmp_path: Path) -> None:
    """Unless the settings ask for it, by `shared_endpoint: true`."""
    log = tmp_path / "imports.txt"
    here: dict[str, Any] = {}
    exec(PORTS, here)
    code = QUIET.replace("PATH", str(log)).replace("BEFORE", repr(here["ports"]()))
    batch = Batch(tmp_path, code, numbered(2))
    (tmp_path / "r.jsonl").write_text('{"text": "x"}\n')
    settings = f"llms: {{a: {{model: 'script/{tmp_path}/r.jsonl'}}}}\nprofiles: {{p: {{run: a}}}}\n"
    (tmp_path / "settings.yaml").write_text(settings)
    assert batch.typed().code == 0
    for row in _rows(batch.out):
        assert json.loads(row["hop_result"]) == {"url": "", "listens": False}
    assert log.read_text() == "imported\n"
    (tmp_path / "settings.yaml").write_text(settings + "shared_endpoint: true\n")
    assert batch.typed("--fresh", "--output-dir", str(tmp_path / "two")).code == 0
    for row in _rows(tmp_path / "two"):
        result = json.loads(row["hop_result"])
        assert result["url"].startswith("http://127.0.0.1:")
        assert result["listens"]


def _rows(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("rows_*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("code", [SYNC, COMMON], ids=["session.base_url", "OPENAI_BASE_URL"])
def test_an_sdk_gets_model_and_parameters_of_the_profile(tmp_path: Path, code: str) -> None:
    """Whatever model the function names, so that the meta line of the result file is true."""
    with LoopbackServer(lambda _: (200, chat("fine"))) as server:
        batch = Batch(tmp_path, code, numbered(1))
        (tmp_path / "settings.yaml").write_text(
            "defaults: {max_tokens: 9, temperature: 0.5}\nllms:\n"
            f"  x: {{model: first, base_url: '{server.url}'}}\n"
            f"  y: {{model: second, base_url: '{server.url}', params: {{temperature: 0}}}}\n"
            "profiles: {a: {run: x}, b: {run: y, verify: x}}\n"
        )
        options = {"settings": str(tmp_path / "settings.yaml"), "gen_kwargs": {"top_p": 1}}
        if code is COMMON:
            # One shared URL leads to one model, so there is one run for each profile.
            runs = [batch.run(profiles=[name], shared_endpoint=True, **options) for name in ("a", "b")]
        else:
            runs = [batch.run(workers=1, **options)]
    metas = [line for run in runs for line in lines_of(run) if "_type" in line]
    assert [meta["run_llm"] for meta in metas] == ["first", "second"]
    for meta, sent in zip(metas, server.bodies, strict=True):
        assert (sent["model"], sent["top_p"]) == (meta["run_llm"], 1)
        assert {name: sent[name] for name in ("max_tokens", "temperature")} == meta["run_params"]
