"""Random bytes to our servers: requests to the gateway and to the view."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from aiohttp import web

from assay.core.protocols import Context
from assay.view.guard import Guard
from assay.view.server import ROUTES, make_app

from servers.endpoint import Endpoint
from support.fuzz import fuzzed, pick, run_bounded
from support.gateway_run import CHAT, GatewayRun, gateway_run_at
from support.mutation import mutated, put_odd_value
from support.runs import run_of

PER_EXAMPLE = 20
"""Requests of one example: they share a server, which takes longer to start than to answer them."""


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
        headers.append(f"Content-Length: {pick(random, LENGTHS, [len(body)]) if random.random() < 0.2 else len(body)}")
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
                lab = GatewayRun(folder, f"python/{folder}/m.py:answer")
            else:
                lab = gateway_run_at(folder, endpoint)
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
    {name for path in VIEW.rglob("*.py") for names in _FIELD.findall(path.read_text()) for name in names if name}
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
        likely = {"run": RUNS, "index": ["0", "1"], "suite": ["task"], "name": ["view.js"]}.get(match[1], ["x"])
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
                    headers.append(f"Content-Type: {pick(random, TYPES, ['application/x-www-form-urlencoded'])}")
                sent = request_bytes(random, method, address(random), headers, body)
                answer = await exchange("127.0.0.1", port, sent)
                assert not answer.startswith(b"HTTP/1.1 500"), sent
                assert b"TOP SECRET" not in answer, sent
                if method == "POST" and not has_token:
                    final = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
                    assert final[9:10] in (b"4", b""), sent
        finally:
            await runner.cleanup()

    run_bounded(main)
