"""An OpenAI-compatible endpoint on loopback whose answers, latency and faults depend on the request alone.

`FakeOpenAI(latency=0.02, faults={"429": 0.1})` starts it as a process of its own, so that it outlives
whatever is killed around it. By hand: `python tests/servers/fake_openai.py --port 0`, which prints the port.

The n-th time a (prompt, seed) arrives is its n-th attempt. `GET /__stats` tells every request that arrived,
`POST /__behave` changes the behaviour, `POST /__reset` forgets what arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from aiohttp import web

STATUSES = {
    "400": "this request is not understood",
    "401": "Incorrect API key provided",
    "403": "this key may not use the model",
    "404": "the model does not exist",
    "429": "Rate limit reached",
    "500": "The server had an error",
    "503": "The server is overloaded",
    "overflow": "This model's maximum context length is 10 tokens (context_length_exceeded)",
}
"""Faults that are an HTTP status with a message; `overflow` is a 400."""
BODIES = {
    "garbage": b"<html>bad gateway</html>",
    "no_choices": b'{"object":"chat.completion","usage":{}}',
    "refusal": b'{"choices":[{"message":{"content":null,"refusal":"I will not"},"finish_reason":"stop"}]}',
}
"""Faults that are a reply with status 200. `drop`, `cut`, `hang` and those of `LIES` concern the connection."""


def _http(body: bytes, *headers: str, first: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([first, *headers, "", ""]).encode() + body


_WRONG = b'{"choices":[{"message":{"content":"an answer to another request"},"finish_reason":"stop"}]}'
_FLOOD = 9 << 20
LIES: dict[str, Callable[[bytes], list[bytes]]] = {
    "reset": lambda body: [],
    "short_length": lambda body: [_http(body, f"Content-Length: {len(body) // 2}")],
    "long_length": lambda body: [_http(body, f"Content-Length: {len(body) + 7}")],
    "two_lengths": lambda body: [_http(body, f"Content-Length: {len(body)}", "Content-Length: 3")],
    "no_number": lambda body: [_http(body, "Content-Length: many")],
    "wrong_type": lambda body: [_http(b"<p>sorry</p>", "Content-Type: text/html", "Content-Length: 12")],
    "half_json": lambda body: [_http(body[:-9], f"Content-Length: {len(body) - 9}")],
    "list": lambda body: [_http(b"[1, 2]", "Content-Length: 6")],
    "deep": lambda body: [_http(b"[" * 90_000, "Content-Length: 90000")],
    "bad_utf8": lambda body: [_http(body.replace(b"answer", b"\xff\xfe"), "Connection: close")],
    "other_types": lambda body: [_http(b'{"choices":[{"message":{"content":17}}]}', "Content-Length: 40")],
    "bad_chunk": lambda body: [_http(b"zz\r\n" + body, "Transfer-Encoding: chunked")],
    "second_reply": lambda body: [
        _http(body, f"Content-Length: {len(body)}") + _http(_WRONG, f"Content-Length: {len(_WRONG)}")
    ],
    "endless_head": lambda body: [_http(b"", *(f"X-{n}: {'x' * 900}" for n in range(200)))],
    "flood": lambda body: [_http(b"", "Connection: close"), *[b" " * (1 << 20)] * (_FLOOD >> 20)],
    "announced_flood": lambda body: [_http(b" " * 1000, f"Content-Length: {1 << 40}")],
    "trickle": lambda body: [
        _http(b"", f"Content-Length: {len(body)}"),
        *(body[n : n + 20] for n in range(0, len(body), 20)),
    ],
    "old_http": lambda body: [_http(body, first="HTTP/1.0 200 OK")],
    "continue_first": lambda body: [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        _http(body, f"Content-Length: {len(body)}"),
    ],
}
"""Faults that are raw bytes, each piece a little after the one before. Then the connection is closed."""
HARMLESS = ("trickle", "old_http", "continue_first")
"""Lies that are HTTP after all: the answer is right."""


class Behaviour(msgspec.Struct):
    """How the endpoint answers. Equal requests get equal answers, whenever they come."""

    latency: float = 0.0
    jitter: float = 0.0
    """Some requests take up to this many times longer, so that replies come out of order."""
    faults: dict[str, float] = {}
    """The share of attempts that meets each fault."""
    faulty_attempts: int = 1_000_000
    """Later attempts of the same request meet no fault."""
    same_fault: bool = False
    """All attempts of a request meet the fault of the first."""
    always: dict[str, str] = {}
    """Prompts that meet a fault at every attempt."""
    retry_after: float | None = 0.05
    held: bool = False
    """Requests wait until the behaviour changes."""
    held_after: int | None = None
    """Requests after this many since the last reset wait until the behaviour changes."""
    wrap: str = ""
    """A text around each answer, which stands at `%s`: JSON for code that expects it."""


class Seen(msgspec.Struct):
    """One request that arrived, and what became of it."""

    prompt: str
    seed: int
    attempt: int
    received: float
    in_flight: int
    reply: str
    """What a good answer says, whether it was sent or not."""
    key: str = ""
    """The API key it came with."""
    outcome: str = "waiting"
    answered: float | None = None


class Stats(msgspec.Struct):
    """Everything that arrived since the last reset, in order of arrival."""

    requests: list[Seen] = []

    @property
    def received(self) -> Counter[tuple[str, int]]:
        """How often each (prompt, seed) arrived."""
        return Counter((seen.prompt, seen.seed) for seen in self.requests)

    @property
    def repeated(self) -> int:
        """How many requests had arrived before."""
        return len(self.requests) - len(self.received)

    @property
    def max_in_flight(self) -> int:
        """The most requests that were open at once."""
        return max((seen.in_flight for seen in self.requests), default=0)

    def outcomes(self, prompt: str) -> list[str]:
        """What became of a prompt, attempt by attempt."""
        return [seen.outcome for seen in self.requests if seen.prompt == prompt]


def share(*parts: object) -> float:
    """A number from 0 to 1 that depends on the parts only."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def number_of(prompt: str, seed: int) -> int:
    """The number, 0 to 3, that the answer names."""
    return int(share("answer", prompt, seed) * 4)


def answer_of(prompt: str, seed: int) -> str:
    """The answer: unlike for every prompt and seed, with a number that a filter can find."""
    name = hashlib.blake2b(f"{seed}/{prompt}".encode(), digest_size=6).hexdigest()
    return f"{name}: the answer is {number_of(prompt, seed)}"


def fault_of(behaviour: Behaviour, prompt: str, seed: int, attempt: int) -> str | None:
    """Which fault this attempt meets, if any."""
    if prompt in behaviour.always:
        return behaviour.always[prompt]
    if attempt > behaviour.faulty_attempts:
        return None
    left = share("fault", prompt, seed, 1 if behaviour.same_fault else attempt)
    for name, part in behaviour.faults.items():
        left -= part
        if left < 0:
            return name
    return None


class Endpoint:
    """The server inside its own process."""

    def __init__(self, behaviour: Behaviour, log: str = "") -> None:
        self.behaviour = behaviour
        self._log = log
        self.stats = Stats()
        self._arrived: Counter[tuple[str, int]] = Counter()
        self._in_flight = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Chat and text completions."""
        from aiohttp import web

        body = json.loads(await request.read())
        messages = body.get("messages")
        seen = self._note(messages[-1]["content"] if messages else body["prompt"], body["seed"])
        number = len(self.stats.requests)
        seen.key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self._write("received", seen)
        try:
            while number > (self.behaviour.held_after or number):  # noqa: ASYNC110 - until a test changes it
                await asyncio.sleep(0.005)
            response = await self._answer(request, seen, chat=messages is not None)
            if self._log and isinstance(response, web.Response):
                await response.prepare(request)
                await response.write_eof()
                self._write("answered", seen)
            return response
        except (asyncio.CancelledError, ConnectionError):
            if seen.outcome == "waiting":
                seen.outcome = "left"
            raise
        finally:
            self._in_flight -= 1

    def _write(self, what: str, seen: Seen) -> None:
        """Append to the log, which outlives this process. An answer is logged once it is on its way."""
        if self._log:
            with Path(self._log).open("a", encoding="utf-8") as file:
                file.write(json.dumps([what, seen.prompt, seen.seed]) + "\n")

    def _note(self, prompt: str, seed: int) -> Seen:
        self._arrived[prompt, seed] += 1
        self._in_flight += 1
        attempt, reply = self._arrived[prompt, seed], answer_of(prompt, seed)
        if self.behaviour.wrap:
            reply = self.behaviour.wrap.replace("%s", reply)
        seen = Seen(prompt, seed, attempt, time.time(), self._in_flight, reply)
        self.stats.requests.append(seen)
        return seen

    async def _answer(self, request: web.Request, seen: Seen, *, chat: bool) -> web.StreamResponse:
        behaviour = self.behaviour
        fault = fault_of(behaviour, seen.prompt, seen.seed, seen.attempt)
        slower = 1 + behaviour.jitter * share("latency", seen.prompt, seen.seed)
        await asyncio.sleep(3600 if fault == "hang" else behaviour.latency * slower)
        while self.behaviour.held:  # noqa: ASYNC110 - until a test changes it
            await asyncio.sleep(0.005)
        seen.outcome, seen.answered = fault or "ok", time.time()
        body = completion(seen.reply, chat=chat)
        if fault in ("drop", "cut"):
            return await _break_off(request, body if fault == "cut" else b"")
        if fault in LIES:
            return await _send_raw(request, LIES[fault](body))
        return self._reply(fault, body)

    def _reply(self, fault: str | None, body: bytes) -> web.Response:
        from aiohttp import web

        if fault not in STATUSES:
            return web.Response(body=BODIES[fault] if fault else body, content_type="application/json")
        wait = self.behaviour.retry_after
        headers = {"Retry-After": f"{wait:g}"} if wait is not None else {}
        status = 400 if fault == "overflow" else int(fault)
        return web.json_response({"error": {"message": STATUSES[fault]}}, status=status, headers=headers)


async def _break_off(request: web.Request, body: bytes) -> web.StreamResponse:
    """Close the connection: without a word, or in the middle of the body."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Length": str(len(body))})
    if body:
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
    assert request.transport is not None
    request.transport.close()
    return response


async def _send_raw(request: web.Request, pieces: list[bytes]) -> web.StreamResponse:
    """Send bytes as they are, and close the connection."""
    from aiohttp import web

    transport = request.transport
    assert transport is not None
    for piece in pieces:
        if transport.is_closing():
            break
        transport.write(piece)
        await asyncio.sleep(0.002)
    if pieces:
        transport.close()
    else:
        transport.abort()
    return web.StreamResponse()


def completion(text: str, *, chat: bool) -> bytes:
    """A completion as OpenAI writes it."""
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    usage = {"prompt_tokens": 7, "completion_tokens": 5}
    return json.dumps({"choices": [{"index": 0, **choice, "finish_reason": "stop"}], "usage": usage}).encode()


async def serve(port: int, behaviour: Behaviour, log: str = "") -> None:
    """Until the process is killed, or whoever started it is gone."""
    from aiohttp import web

    endpoint = Endpoint(behaviour, log)
    app = web.Application(client_max_size=1 << 26)
    for path in ("/v1/chat/completions", "/v1/completions"):
        app.router.add_post(path, endpoint.complete)
    # A handler hears at once that its client is gone: what hangs is not in flight for ever.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    for method, path, handler in controls(endpoint, runner):
        app.router.add_route(method, path, handler)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - whoever started us reads it
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nobody tells an orphan
        await asyncio.sleep(1)


def controls(endpoint: Endpoint, runner: web.AppRunner) -> list[tuple[str, str, Callable[[Any], Awaitable[Any]]]]:
    """What tests ask and tell the server."""
    from aiohttp import web

    async def stats(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(endpoint.stats))

    async def behave(request: web.Request) -> web.Response:
        endpoint.behaviour = msgspec.json.decode(await request.read(), type=Behaviour)
        return web.Response()

    async def reset(_: web.Request) -> web.Response:
        endpoint.stats = Stats()
        endpoint._arrived.clear()
        return web.Response()

    async def connections(_: web.Request) -> web.Response:
        assert runner.server is not None
        return web.Response(text=str(len(runner.server.connections)))

    return [
        ("GET", "/__stats", stats),
        ("GET", "/__connections", connections),
        ("POST", "/__behave", behave),
        ("POST", "/__reset", reset),
    ]


class FakeOpenAI:
    """The server as a process of its own, for a `with` statement.

    A server on any port and without a log is used again by later `with` statements of this process: each start takes
    0.15 s of CPU, and the tests start hundreds.
    """

    _idle: ClassVar[list[tuple[subprocess.Popen[str], int]]] = []

    def __init__(self, port: int = 0, *, log: Path | None = None, **behaviour: Any) -> None:
        """With `log`, every request and every answer is written to this file, also by a server that was killed."""
        self._is_shared = not port and log is None
        self.port = port
        self._log = log
        self._behaviour = Behaviour(**behaviour)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        if self._is_shared and self._idle:
            self._process, self.port = self._idle.pop()
            self._call("behave", msgspec.json.encode(self._behaviour))
            return self
        given = msgspec.json.encode(self._behaviour).decode()
        command = [sys.executable, str(Path(__file__)), "--port", str(self.port), "--behaviour", given]
        if self._log is not None:
            command += ["--log", str(self._log)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None or not self._is_shared:
            self.kill()
            return
        self.behave()  # requests that are held are answered
        self.settle()
        self.reset()
        self._idle.append((self._process, self.port))
        self._process = None

    def logged(self, what: str) -> list[tuple[str, int]]:
        """Prompt and seed of every request that was `received` or `answered`, by earlier processes too."""
        if self._log is None or not self._log.exists():
            return []
        # The last line of a server that was killed may be incomplete.
        lines = self._log.read_text().rpartition("\n")[0].splitlines()
        return [(prompt, seed) for kind, prompt, seed in map(json.loads, lines) if kind == what]

    def kill(self) -> None:
        """The endpoint is gone, in the middle of whatever it did."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    @property
    def url(self) -> str:
        """What `--base-url` takes."""
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> Stats:
        """What arrived so far."""
        return msgspec.json.decode(self._call("stats"), type=Stats)

    def behave(self, **behaviour: Any) -> None:
        """Answer like this from now on."""
        self._call("behave", msgspec.json.encode(Behaviour(**behaviour)))

    def reset(self) -> None:
        """Forget what arrived."""
        self._call("reset", b"")

    def settle(self) -> None:
        """Wait until all that a dead process had sent has arrived: until its connections are closed."""
        deadline = time.monotonic() + 60
        while int(self._call("connections")) > 1:  # this one
            assert time.monotonic() < deadline, "a connection to the server stays open"
            time.sleep(0.005)

    def _call(self, name: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/__{name}", data=body)
        with urllib.request.urlopen(request, timeout=10) as answer:
            data: bytes = answer.read()
            return data


@atexit.register
def _end_idle_servers() -> None:
    for process, _ in FakeOpenAI._idle:
        process.kill()
        process.communicate()


def main() -> None:
    """Serve on a port of one's own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", default="{}", help="JSON, as of the class Behaviour")
    parser.add_argument("--log", default="", help="file for a line for each request and each answer")
    given = parser.parse_args()
    behaviour = msgspec.json.decode(given.behaviour, type=Behaviour)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(given.port, behaviour, given.log))


if __name__ == "__main__":
    main()
