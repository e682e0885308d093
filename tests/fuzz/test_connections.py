"""Random bytes on sockets: replies to the HTTP client and the providers, requests to the gateway and to the view."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from aiohttp import web

from assay.core.connect import Connection
from assay.core.errors import ModelError
from assay.core.protocols import Context, Model
from assay.core.registry import find
from assay.core.types import Request
from assay.models.calling.http_client import HttpEndpoint, bearer
from assay.view.guard import Guard
from assay.view.server import ROUTES, make_app

from servers.endpoint import Endpoint
from servers.gateway_lab import CHAT, Lab, lab_at
from servers.wired import Wire, Wired
from support.fuzz import HANG_SECONDS, bounded, expect_printable, fuzzed, pick
from support.mutation import mutated, put_odd_value
from support.runs import run_of

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
LOGPROBS = {
    "tokens": ["a", "b"],
    "token_logprobs": [None, -0.5],
    "text_offset": [0, 1],
    "top_logprobs": [None, {"b": -0.5}],
}
REPLIES: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"id": "1", "model": "m", "choices": [CHOICE], "usage": USAGE},
        {"error": {"message": "no", "code": "x"}},
    ],
    "openai-completions": [{"model": "m", "choices": [CHOICE | {"logprobs": LOGPROBS}], "usage": USAGE}],
    "openai-responses": [
        {
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
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
        }
    ],
}
REQUESTS = [
    Request(model="m", messages=[{"role": "user", "content": "hello"}], params={"max_tokens": 5}),
    Request(model="m", prompt="hello", params={"max_tokens": 5}),
    Request(model="m", prompt="a", continuation="b"),
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


@pytest.fixture(autouse=True)
def keys_without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-not-a-key")
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(autouse=True)
def quiet_aiohttp() -> Iterator[None]:
    """Aiohttp logs every request that is no HTTP."""
    logger = logging.getLogger("aiohttp.server")
    logger.disabled = True
    yield
    logger.disabled = False


def run_bounded(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(main(), HANG_SECONDS)

    with bounded():
        asyncio.run(limited())


def response(random: Random, body: bytes) -> bytes:
    """An HTTP response with the body: mostly a right one, sometimes with odd headers or changed bytes."""
    status = pick(random, STATUSES, [200])
    fields = [random.choice(FIELDS)] if random.random() < 0.25 else []
    if random.random() < 0.9:
        fields.append(b"Content-Length: %d" % len(body))
    head = b"\r\n".join([b"HTTP/1.1 %d OK" % status, *fields])
    whole = head + b"\r\n\r\n" + body
    return mutated(random, whole) if random.random() < 0.2 else whole


def pieces_of(random: Random, data: bytes) -> list[bytes]:
    """The bytes cut at random places."""
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 1, 4])))
    return [
        data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if end > start
    ]


class Replies:
    """Answers each connection with the next response, in pieces, and closes it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def __call__(self, wire: Wire) -> None:
        await wire.request()
        await wire.send(*self.pieces)


@fuzzed(25)
def test_the_http_client_gets_a_reply_or_a_fault(random: Random) -> None:
    """Whatever a server sends, and wherever the network cuts it."""

    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for _ in range(PER_EXAMPLE):
                replies.pieces = pieces_of(random, response(random, b'{"a": [1, 2]}'))
                endpoint = HttpEndpoint(server.url, bearer("k"), 20.0)
                try:
                    reply = await endpoint.post("/x", b"{}")
                    assert 100 < reply.status < 1000
                except ModelError as error:
                    expect_printable(error.failure.message)
                finally:
                    await endpoint.close()

    run_bounded(main)


@fuzzed(40)
def test_a_provider_reads_a_reply_or_fails_the_call(random: Random) -> None:
    """JSON with odd values at any place: the case gets a Failure, and never an exception of ours."""

    async def main() -> None:
        replies = Replies()
        async with Wired(replies) as server:
            for _ in range(PER_EXAMPLE):
                name = random.choice(list(REPLIES))
                reply = json.loads(json.dumps(random.choice(REPLIES[name])))
                for _ in range(random.choice([1, 1, 2])):
                    put_odd_value(random, reply)
                body = json.dumps(reply).encode()
                replies.pieces = pieces_of(random, response(random, body))
                model: Model = find("model", name).connect(
                    Connection(name="m", base_url=server.url, timeout=20.0)
                )
                try:
                    answer = await model.send(random.choice(REQUESTS), 1)
                    assert isinstance(answer.text, (str, type(None)))
                except ModelError as error:
                    expect_printable(error.failure.message)
                finally:
                    await model.close()

    run_bounded(main)


async def exchange(host: str, port: int, request: bytes) -> bytes:
    """Send bytes, and return the response without waiting for the end of the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        if b"Content-Length: 9999" in request:
            writer.write_eof()  # the server would wait for the rest
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
        is_bare = request.startswith(b"HEAD") or length is None
        return head if is_bare or length is None else head + await reader.readexactly(int(length[1]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""  # the server has closed the connection
    finally:
        writer.close()


PATHS = [
    "/chat/completions",
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/models",
    "/a/b:c",
]
BODIES: list[dict[str, Any]] = [
    CHAT,
    {
        **CHAT,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "n": 2,
        "stop": ["a"],
        "logprobs": True,
    },
    {**CHAT, "stream": True, "stream_options": {"include_usage": True}},
    {"prompt": ["hello", "x"], "model": "mine", "echo": True},
    {"input": ["hello"], "model": "mine", "encoding_format": "base64"},
]
METHODS = ["GET", "PUT", "HEAD", "OPTIONS", "X" * 40, "post"]
ODD_HEADERS = [
    "Origin: http://evil.example",
    "Host: evil.example",
    "Content-Encoding: gzip",
    "Content-Encoding: br",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "Cookie: a=\x7f",
    "Range: bytes=9-1",
    "Sec-Fetch-Site: cross-site",
    "Assay-Fragment: rows",
    "X: " + "y" * 9000,
]
LENGTHS = ["-4", "999999999999", "0", "1e3"]


def request_bytes(random: Random, method: str, target: str, headers: list[str], body: bytes) -> bytes:
    """A request, sometimes with an odd header or a wrong length."""
    if random.random() < 0.2:
        headers.append(random.choice(ODD_HEADERS))
    if body or method == "POST":
        headers.append(
            f"Content-Length: {pick(random, LENGTHS, [len(body)]) if random.random() < 0.2 else len(body)}"
        )
    lines = [f"{method} {target} HTTP/1.1", *headers, "Connection: close"]
    return "\r\n".join(lines).encode(errors="replace") + b"\r\n\r\n" + body


@pytest.mark.parametrize("provider", ["openai", "python"])
@fuzzed(9)
def test_the_gateway_answers_any_request(
    tmp_path_factory: pytest.TempPathFactory, provider: str, random: Random
) -> None:
    """With a status that is no fault of ours, and the case goes on."""
    folder = tmp_path_factory.mktemp("gateway")

    async def main() -> None:
        async with Endpoint() as endpoint:
            if provider == "python":
                (folder / "m.py").write_text("async def answer(prompt, params):\n    return 'x'\n")
                lab = Lab(folder, f"python/{folder}/m.py:answer")
            else:
                lab = lab_at(folder, endpoint)
            lab.max_retries = 0

            async def solve(_inputs: Any, ctx: Context) -> None:
                url = urlsplit(await ctx.base_url())
                assert url.hostname is not None
                assert url.port is not None
                for _ in range(PER_EXAMPLE):
                    body = json.loads(json.dumps(random.choice(BODIES)))
                    put_odd_value(random, body)
                    data = json.dumps(body).encode()
                    data = mutated(random, data) if random.random() < 0.2 else data
                    path = pick(random, ["/../x", "/%2e%2e/x", "/x?key=1", "/ÿ", "//", "/.hidden"], PATHS)
                    method = "POST" if random.random() < 0.9 else random.choice(METHODS)
                    sent = request_bytes(random, method, url.path + path, [f"Host: {url.netloc}"], data)
                    answer = await exchange(url.hostname, url.port, sent)
                    assert not answer.startswith(b"HTTP/1.1 500"), sent

            await lab.done(solve)

    run_bounded(main)


TEXTS = [
    *(
        "",
        "x",
        "0",
        "-1",
        "9" * 30,
        "nan",
        "1e999",
        "..",
        "../../secret.txt",
        "%2e%2e/%2e%2e/secret.txt",
        "%00",
        "%ff",
    ),
    *(
        "%ed%a0%80",
        "%",
        "%zz",
        "a" * 5000,
        "<script>alert(1)</script>",
        "'\"",
        "字",
        "one@me",
        "@",
        "task",
        "memory test",
    ),
    *(
        "//evil.example",
        "\\\\x",
        "a;b",
        "me",
        "all",
        "-score",
        "id",
        "1,2,3",
        "[1]",
        "{}",
        "0.5",
        "status:error",
    ),
    *("score:exact<1", "2024-01-01", "(a+)+$", "a" * 40 + "!", "results/assay/one", "results/assay/two"),
]
RUNS = ["results/assay/one", "results/assay/one", "results/assay/two"]
VIEW = Path(__file__).parents[2] / "src" / "assay" / "view"
# The names of the fields in addresses and forms, as far as they stand in the code.
_FIELD = re.compile(
    r"""(?:query|form)(?:\.get|\.getall)?[\[(]"(\w+)"|^    (\w+): (?:str|int|bool|list)""", re.MULTILINE
)
KEYS = sorted(
    {
        name
        for path in VIEW.rglob("*.py")
        for names in _FIELD.findall(path.read_text())
        for name in names
        if name
    }
)
ADDRESSES = [path for _, path, _ in ROUTES if "live" not in path]
TYPES = [
    "application/x-www-form-urlencoded; charset=nope",
    "application/x-www-form-urlencoded; charset=utf-16",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "application/json",
    "ÿ",
]


def address(random: Random) -> str:
    """An address of the view, with right and wrong names in it, and a query."""

    def name(match: re.Match[str]) -> str:
        likely = {"run": RUNS, "index": ["0", "1"], "suite": ["task"], "name": ["view.js"]}.get(
            match[1], ["x"]
        )
        text = str(pick(random, TEXTS, likely))
        return quote(text, safe="") if random.random() < 0.3 else text

    path = re.sub(r"\{(\w+)(?::(?:[^{}]|\{[^{}]*\})*)?\}", name, random.choice(ADDRESSES))
    if random.random() < 0.05:
        path = "/" + "/".join(random.choice(TEXTS) for _ in range(3))
    return (path + "?" + form(random)).replace(" ", "%20")


def form(random: Random) -> str:
    pairs = [(random.choice(KEYS), str(random.choice(TEXTS))) for _ in range(random.randrange(5))]
    return "&".join(f"{key}={quote(text, safe='') if random.random() < 0.7 else text}" for key, text in pairs)


@fuzzed(9)
def test_the_view_answers_any_request_and_shows_no_file_outside(
    tmp_path_factory: pytest.TempPathFactory, random: Random
) -> None:
    """Never 500; nothing from outside its folder; and no change for a form without its token."""
    root = tmp_path_factory.mktemp("view")
    (root / "secret.txt").write_text("TOP SECRET")
    runs = root / "runs"
    run_of(runs / "results" / "assay" / "one", {"a": True, "b": False})
    run_of(runs / "results" / "assay" / "two", {"a": True, "b": True})

    async def main() -> None:
        guard = Guard("127.0.0.1")
        runner = web.AppRunner(make_app(runs, guard), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            for _ in range(PER_EXAMPLE):
                method = pick(random, METHODS, ["GET", "GET", "POST"])
                headers = [f"Host: 127.0.0.1:{port}"]
                body, has_token = b"", random.random() < 0.7
                if method not in ("GET", "HEAD"):
                    token = f"&token={guard.page_token}" if has_token else "&token=%ff%ed%a0%80"
                    body = (form(random) + token).encode(errors="replace")
                    body += b"\xff\xfe" if random.random() < 0.1 else b""
                    headers.append(
                        f"Content-Type: {pick(random, TYPES, ['application/x-www-form-urlencoded'])}"
                    )
                sent = request_bytes(random, method, address(random), headers, body)
                answer = await exchange("127.0.0.1", port, sent)
                assert not answer.startswith(b"HTTP/1.1 500"), sent
                assert b"TOP SECRET" not in answer, sent
                if method == "POST" and not has_token:
                    assert answer[9:10] in (b"4", b""), sent
        finally:
            await runner.cleanup()

    run_bounded(main)
