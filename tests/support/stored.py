"""The stored runs of lm-evaluation-harness once more, by the commands that made them."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

from servers.echoing import EchoServer
from servers.replay import ReplayServer
from support.commands import run_here

GOLDEN = Path(__file__).parents[1] / "golden" / "lm_eval"
QUIRKY = {"c_fewshot_fallback": ["--lm-eval-quirks"]}
"""What was stored with an error of the harness in it."""


def replaying(name: str) -> ReplayServer:
    """A server that gives the stored replies."""
    return ReplayServer(GOLDEN / "out" / name / "requests.jsonl")


def command(name: str, url: str, out: Path) -> list[str]:
    """The stored command, word by word, with our name, another port and another place for the files."""
    words = shlex.split((GOLDEN / "out" / name / "cmd.txt").read_text())
    assert words[:2] == ["lm_eval", "run"]
    told = [re.sub(r"http://127\.0\.0\.1:\d+/v1", url, word) for word in words[2:]]
    told[told.index("--output_path") + 1] = str(out)
    return ["task", *told, *QUIRKY.get(name, [])]


def typed(words: list[str], cwd: Path = GOLDEN) -> subprocess.CompletedProcess[str]:
    """`assay ...` where the data of the stored tasks is."""
    return run_here(words, cwd)


async def echoed(name: str, out: Path) -> subprocess.CompletedProcess[str]:
    async with EchoServer() as server:
        return await asyncio.to_thread(typed, command(name, server.url, out))


def run_stored(name: str, out: Path) -> subprocess.CompletedProcess[str]:
    """Likelihoods come from the function that gave the stored ones, texts from the stored replies."""
    if name == "d_mc":
        return asyncio.run(echoed(name, out))
    with replaying(name) as server:
        return typed(command(name, server.url, out))
