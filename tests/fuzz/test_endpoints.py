"""Random replies of endpoints: to the HTTP client, to every provider that has an endpoint, and to the memory `http`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from assay.core.errors import AssayError, ModelError
from assay.core.protocols import Model
from assay.core.registry import built_in, find
from assay.core.roles import Connection
from assay.core.types import Request, SdkRequest
from assay.models.http.client import HttpEndpoint, bearer
from assay.models.http.sdk_requests import EMBEDDINGS_PATH
from assay.models.likelihood.llama_server import LlamaServerLikelihood
from memories.test_http import lived, make

from servers.wired import Wire, Wired
from support.fuzz import expect_printable, fuzzed, pick, run_bounded
from support.mutation import DEEP, mutated, put_odd_value

PER_EXAMPLE = 20
"""Requests of one example: they share a server, which takes longer to start than to answer them."""
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 1},
}
CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": "hi"},
    "finish_reason": "stop",
    "text": "hi",
}
# The echo of the prompt "ab", and the token that is generated after it.
LOGPROBS = {
    "tokens": ["a", "b", "c"],
    "token_logprobs": [None, -0.5, -0.5],
    "text_offset": [0, 1, 2],
    "top_logprobs": [None, {"b": -0.5}, {"c": -0.5}],
}
EMBEDDINGS = {
    "object": "list",
    "data": [{"index": 0, "embedding": [0.5, 1e-9]}],
    "model": "m",
    "usage": USAGE,
}
CHAT_REPLIES: list[dict[str, Any]] = [
    {"id": "1", "model": "m", "choices": [CHOICE], "usage": USAGE},
    {"error": {"message": "no", "code": "x"}},
    EMBEDDINGS,
]
COMPLETIONS = {"": {"model": "m", "choices": [CHOICE | {"text": "abc", "logprobs": LOGPROBS}], "usage": USAGE}}
# By path: /tokenize and its neighbours are asked for likelihoods.
WITH_TOKENIZER = COMPLETIONS | {
    "/tokenizer_info": {"bos_token": "<s>", "eos_token": "</s>"},
    "/tokenize": {"tokens": [1], "count": 1},
    "/detokenize": {"prompt": "a"},
}
ENTRY = {"id": 1, "token": "a", "logprob": -0.5, "top_logprobs": [{"id": 1, "token": "a", "logprob": -0.5}]}
LLAMA = {
    "": {"choices": [CHOICE | {"logprobs": {"content": [ENTRY]}}], "usage": USAGE},
    "/props": {"default_generation_settings": {"n_ctx": 64}, "bos_token": "<s>", "eos_token": "</s>"},
    "/tokenize": {"tokens": [{"id": 1, "piece": "a"}]},
}
ENDPOINTS: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("openai", "azure", "deepseek", "ollama", "openrouter", "qwen"), CHAT_REPLIES),
    "openai-completions": [COMPLETIONS, WITH_TOKENIZER],
    "openai-responses": [
        {
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
        {
            "status": "incomplete",
            "incomplete_details": {"reason": "content_filter"},
            "output": [
                {"type": "reasoning", "summary": [{"text": "hm"}], "content": [{"text": "hm"}]},
                {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]},
            ],
        },
    ],
    "anthropic": [
        {
            "content": [{"type": "text", "text": "hi"}, {"type": "thinking", "thinking": "hm"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ],
    "gemini": [
        {
            "candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
        },
        {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": [{"category": "x"}]}, "candidates": []},
        {"embeddings": [{"values": [0.5, 1e-9]}], "usageMetadata": {"promptTokenCount": 1}},
    ],
    "llama-server": [LLAMA],
}
# vllm and sglang start a server and then are openai-completions and openai. The others ask no endpoint.
WITHOUT_ENDPOINT = {"vllm", "sglang", "hf", "local", "python", "script"}
REQUESTS = [
    Request(model="m", messages=[{"role": "user", "content": "hello"}], params={"max_tokens": 5}),
    Request(model="m", prompt="hello", params={"max_tokens": 5}),
    Request(model="m", prompt="a", continuation="b"),
    Request(model="m", continuation="a"),
    Request(model="m", sdk=SdkRequest(EMBEDDINGS_PATH, {"input": ["a"]})),
]
STATUSES = [100, 101, 204, 301, 400, 401, 403, 404, 408, 413, 429, 500, 503, 529, 600, 999]
FIELDS = [
    b"Retry-After: 1e400",
    b"Retry-After: \xff",
    b"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT",
    b"Content-Type: text/html; charset=nope",
    b"Content-Encoding: gzip",
    b"Transfer-Encoding: chunked",
    b"Content-Length: 7",
    b"Content-Length: 99999999999999999999",
    b"Location: http://127.0.0.1:1/",
    b"Set-Cookie: \x00",
    b"X" * 70_000,
    b": ",
    b" folded",
]


KEYS = [
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY", "DEEPSEEK_API_KEY"),
    *("OPENROUTER_API_KEY", "DASHSCOPE_API_KEY"),
]


@pytest.fixture(autouse=True)
def keys_without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "sk-not-a-key")
    monkeypatch.setenv("NO_PROXY", "*")


def response(random: Random, body: bytes) -> bytes:
    """An HTTP response with the body: mostly a right one, sometimes with odd headers or changed bytes."""
    status = pick(random, STATUSES, [200])
    fields = [b"Connection: close"]
    if random.random() < 0.25:
        fields.append(random.choice(FIELDS))
    if random.random() < 0.9:
        fields.append(b"Content-Length: %d" % len(body))
    head = b"\r\n".join([b"HTTP/1.1 %d OK" % status, *fields])
    whole = head + b"\r\n\r\n" + body
    return mutated(random, whole) if random.random() < 0.2 else whole


def pieces_of(random: Random, data: bytes) -> list[bytes]:
    """The bytes cut at random places."""
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 1, 4])))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if end > start]


class Replies:
    """Answers each connection with the response for its path, in pieces, and closes it."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[bytes]] = {}

    async def __call__(self, wire: Wire) -> None:
        request = await wire.request()
        path = re.sub(rb"^\w+ (/v1)?([^ ?]*).*", rb"\2", request.split(b"\r\n")[0]).decode()
        await wire.send(*self.pieces.get(path, self.pieces[""]))


def odd_replies(random: Random, replies: dict[str, Any]) -> dict[str, list[bytes]]:
    """The responses by path, with odd values in one of them, and perhaps odd bytes."""
    replies = json.loads(json.dumps(replies))
    changed = random.choice(list(replies))
    for _ in range(random.choice([1, 1, 2])):
        put_odd_value(random, replies[changed])
    if random.random() < 0.03:
        return {path: [fine(b'{"error": ' + b"[" * DEEP)] for path in replies}
    whole = {
        path: response(random, json.dumps(reply).encode()) if path == changed else fine(json.dumps(reply).encode())
        for path, reply in replies.items()
    }
    return {path: pieces_of(random, data) for path, data in whole.items()}


def fine(body: bytes) -> bytes:
    """A right response. The client must not use the connection again: `Replies` closes it."""
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@fuzzed(25)
def test_the_http_client_gets_a_reply_or_a_fault(random: Random) -> None:
    """Whatever a server sends, and wherever the network cuts it."""

    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for _ in range(PER_EXAMPLE):
                replies.pieces = {"": pieces_of(random, response(random, b'{"a": [1, 2]}'))}
                endpoint = HttpEndpoint(server.url, bearer("k"), 20.0)
                try:
                    reply = await endpoint.post("/x", b"{}")
                    assert 100 < reply.status < 1000
                except ModelError as error:
                    expect_printable(error.failure.message)
                finally:
                    await endpoint.close()

    run_bounded(main)


def test_every_provider_with_an_endpoint_gets_odd_replies() -> None:
    """A new provider fails here until the test below has a reply of its endpoint."""
    assert ENDPOINTS.keys() | WITHOUT_ENDPOINT == built_in("model")


def connect(name: str, url: str) -> Model:
    """Return the model of a provider at this address. The server of llama.cpp is asked as if it were started."""
    connection = Connection(name="m", base_url=url, timeout=20.0)
    if name == "llama-server":
        return LlamaServerLikelihood(connection)
    model: Model = find("model", name).connect(connection)
    return model


# Requests that a provider answers, by their number in REQUESTS, where these are not chat, text and embeddings.
# The tokenizer here has one reply for all texts, so that a continuation never adds a token to its prompt.
ANSWERED = {"openai-completions": {0, 1, 2, 3, 4}, "llama-server": {0, 1, 3, 4}}


def test_every_provider_answers_with_unchanged_replies() -> None:
    """Changes of replies that are refused anyway would test nothing."""
    answered: dict[str, set[int]] = {name: set() for name in ENDPOINTS}

    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for name, reply in ((name, reply) for name, each in ENDPOINTS.items() for reply in each):
                by_path = reply if "" in reply else {"": reply}
                replies.pieces = {path: [fine(json.dumps(body).encode())] for path, body in by_path.items()}
                for number, request in enumerate(REQUESTS):
                    model = connect(name, server.url)
                    with suppress(ModelError):
                        await model.send(request, 1)
                        answered[name].add(number)
                    await model.close()

    run_bounded(main)
    assert answered == {name: ANSWERED.get(name, {0, 1, 4}) for name in ENDPOINTS}


@fuzzed(40)
def test_a_provider_reads_a_reply_or_fails_the_call(random: Random) -> None:
    """JSON with odd values at any place: the case gets a Failure, and never an exception of ours."""

    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for _ in range(PER_EXAMPLE):
                name = random.choice(list(ENDPOINTS))
                reply = random.choice(ENDPOINTS[name])
                replies.pieces = odd_replies(random, reply if "" in reply else {"": reply})
                model = connect(name, server.url)
                request = random.choice(REQUESTS[2:4] if name == "llama-server" else REQUESTS)
                try:
                    answer = await model.send(request, 1)
                    assert isinstance(answer.text, (str, type(None)))
                except ModelError as error:
                    expect_printable(error.failure.message)
                finally:
                    await model.close()

    run_bounded(main)


SERVICE = {
    "": {},
    "/search": {"hits": [{"id": "1", "text": "x", "score": 0.5, "sources": ["D1:1"], "trace": {"a": 1}}]},
    "/items": {"items": [{"id": "1", "text": "x", "session": "s", "date": "2024-01-01", "metadata": {"a": 1}}]},
}


def test_the_memory_http_reads_unchanged_replies() -> None:
    async def main() -> None:
        replies = Replies()
        replies.pieces = {path: [fine(json.dumps(body).encode())] for path, body in SERVICE.items()}
        async with Wired(replies) as server:
            hits, items = await lived(make(server.url))
            assert (len(hits), len(items)) == (1, 1)

    run_bounded(main)


@fuzzed(8)
def test_the_memory_http_reads_a_reply_or_fails_the_case(random: Random) -> None:
    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for _ in range(PER_EXAMPLE):
                replies.pieces = odd_replies(random, SERVICE)
                memory = make(server.url)
                try:
                    await lived(memory)
                except AssayError as error:
                    expect_printable(str(error))

    run_bounded(main)
