"""`--embedder PROVIDER/NAME`: vectors come from an endpoint and are logged like other calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

import assay
from assay import api

from servers.running import RunningServer
from support.memory_talks import Talks, numbers_of, talk


class Vectors(RunningServer):
    """Returns vectors in reverse order. With `short` one vector is missing."""

    def __init__(self, *, short: bool = False) -> None:
        self.asked: list[list[str]] = []
        self._short = short

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        texts = json.loads(await request.read())["input"]
        assert request.path.endswith("/embeddings")
        self.asked.append(texts)
        data = [{"index": index, "embedding": _vector(text)} for index, text in enumerate(texts)][::-1]
        return web.json_response({"data": data[self._short :], "usage": {"prompt_tokens": 3}})


def _vector(text: str) -> list[float]:
    """Texts that end in the same number get the same vector."""
    number = int(text.partition("fruit")[2].split()[0])
    return [5.0 * (place == number) for place in range(8)]


def run(talks: Talks, server: Vectors) -> api.Run:
    async def main() -> api.Run:
        async with server:
            values: dict[str, Any] = talks.values(
                memory=["dense"], model="", no_answer=True, embedder="openai/e", top_k=1
            )
            values |= {"base_url": server.url, "memory_args": {"centre": False}, "max_retries": 0}
            spec = assay.spec("memory-test", **values)
            done, requests = await assay.arun(spec), len(server.asked)
            await assay.arun(spec)
            assert len(server.asked) == requests or done.exit_code, "a second start asks nothing"
            return done

    return asyncio.run(main())


def test_vectors_are_assigned_to_their_texts(tmp_path: Path) -> None:
    """The endpoint returns vectors in another order; each question still finds its message."""
    talks, server = Talks(tmp_path, talk(6)), Vectors()
    done = run(talks, server)
    summary = numbers_of(done)
    assert [(metric["metric"], metric["value"]) for metric in summary["metrics"]] == [
        ("evidence_recall", 1.0)
    ]
    assert len(server.asked) > 3


def test_a_missing_vector_fails_the_conversation(tmp_path: Path) -> None:
    done = run(Talks(tmp_path), Vectors(short=True))
    assert done.summary.failures == {"bad_reply": 1}
    assert done.exit_code == 3
