"""`--embedder`: vectors come from a file of the user, or from an endpoint, where they are logged like other calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import assay
from assay.core.errors import UsageError

from servers.running import RunningServer
from support.memory_talks import Talks, numbers_of, talk


class Vectors(RunningServer):
    """Returns vectors in reverse order. With `short` one vector is missing. `length` is that of a vector."""

    def __init__(self, *, short: bool = False, length: float = 5.0) -> None:
        self.asked: list[list[str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.tenants: set[str] = set()
        self._short = short
        self._length = length

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        texts = body["input"]
        assert request.path.endswith("/embeddings")
        self.asked.append(texts)
        self.bodies.append(body)
        self.tenants.add(request.headers.get("X-Tenant", ""))
        data = [{"index": index, "embedding": _vector(text, self._length)} for index, text in enumerate(texts)]
        data.reverse()
        return web.json_response({"data": data[self._short :], "usage": {"prompt_tokens": 3}})


def _vector(text: str, length: float) -> list[float]:
    """Texts that end in the same number get the same vector."""
    number = int(text.partition("fruit")[2].split()[0])
    return [length * (place == number) for place in range(8)]


def run(talks: Talks, server: Vectors, **more: Any) -> assay.Run:
    async def main() -> assay.Run:
        async with server:
            values: dict[str, Any] = talks.values(
                memory=["dense"], model="", no_answer=True, embedder="openai/e", top_k=1
            )
            values |= {"base_url": server.url, "memory_args": {"centre": False}, "max_retries": 0}
            spec = assay.spec("memory-test", **values, **more)
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
    assert {metric["metric"]: metric["value"] for metric in summary["metrics"]}["evidence_recall"] == 1.0
    assert len(server.asked) > 3


def test_a_missing_vector_fails_the_conversation(tmp_path: Path) -> None:
    done = run(Talks(tmp_path), Vectors(short=True))
    assert done.summary.failures == {"bad_reply": 1}
    assert done.exit_code == 3


def test_a_vector_with_numbers_beyond_float32_fails_the_conversation(tmp_path: Path) -> None:
    done = run(Talks(tmp_path), Vectors(length=1e39))
    assert done.summary.failures == {"bad_reply": 1}


def test_parameters_of_the_embedder_are_sent(tmp_path: Path) -> None:
    """Fields and extra_body are in the body, headers among the headers. Those of chat requests are not sent."""
    server = Vectors()
    kwargs = {"dimensions": 16, "extra_body": {"input_type": "query"}, "headers": {"X-Tenant": "lab"}}
    done = run(Talks(tmp_path, talk(6)), server, embedder_kwargs=kwargs, gen_kwargs={"temperature": 1})
    assert done.exit_code == 0
    sent = [{name: value for name, value in body.items() if name != "input"} for body in server.bodies]
    assert sent == [{"model": "e", "dimensions": 16, "input_type": "query"}] * len(sent)
    assert server.tenants == {"lab"}


def test_a_misspelled_parameter_of_the_embedder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no parameter 'dimension'; did you mean 'dimensions'"):
        run(Talks(tmp_path), Vectors(), embedder_kwargs={"dimension": 16})


OWN = """
import numpy as np

class Letters:
    def embed(self, texts):
        rows = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz123456789"] for text in texts])
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)

def load():
    with open(__file__ + ".loads", "a") as file:
        print("load", file=file)
    return Letters()

class Loaded(Letters):
    @classmethod
    def load(cls):
        return cls()

def flat(): return Flat()
class Flat:
    def embed(self, texts): return np.zeros(3)

def not_a_number(): return Filled(float("nan"))
def infinite(): return Filled(float("inf"))
def too_large(): return Filled(1e39)
class Filled:
    def __init__(self, value): self.value = value
    def embed(self, texts): return np.full((len(texts), 3), self.value)

def broken(): raise ValueError("no weights")
def nothing(): return None
def takes(path): ...
NUMBER = 3
"""


def run_own(folder: Path, name: str) -> assay.Run:
    (folder / "letters.py").write_text(OWN)
    values = Talks(folder, talk(6)).values(memory=["dense"], model="", no_answer=True, top_k=1)
    return assay.run(assay.spec("memory-test", **values, embedder=f"{folder / 'letters.py'}:{name}"))


@pytest.mark.parametrize("name", ["load", "Letters", "Loaded"])
def test_an_embedder_of_ones_own_is_a_function_or_a_class(tmp_path: Path, name: str) -> None:
    """It is loaded once for all texts of a run."""
    run = run_own(tmp_path, name)
    assert run.exit_code == 0
    assert numbers_of(run)["metrics"][0]["value"] > 0
    if name == "load":
        assert (tmp_path / "letters.py.loads").read_text() == "load\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NUMBER", "is no embedder: it needs load()"),
        ("takes", "is no embedder: it is called as f(), but takes (path)"),
        ("nothing", "is no embedder: NoneType has no method embed(texts)"),
        ("broken", "cannot be loaded: it raised ValueError: no weights (letters.py:"),
        ("flat", "returned an array of shape (3,) for 2 texts"),
        ("not_a_number", "letters.py:not_a_number' returned a vector with nan"),
        ("infinite", "letters.py:infinite' returned a vector with inf"),
        ("too_large", "letters.py:too_large' returned a vector with inf"),
    ],
)
def test_something_else_is_no_embedder(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_own(tmp_path, name)
    assert message in str(caught.value)
