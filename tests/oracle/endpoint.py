"""The endpoint that both harnesses ask: the answer depends on the prompt and on how often it was asked.

lm-evaluation-harness sends the same seed with every repeat, so equal prompts are counted; `POST /reset`
begins anew. Tokens are UTF-8 bytes, which `/tokenize` and its likes tell. By hand:
`python tests/oracle/endpoint.py` prints its port and ends when its standard input ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

WORDS = ["Paris", "42", "été", "Straße", "七", "a b", "1,000", "x", "New York", "-3.5", "Ωmega", "no"]
"""What is answered; generated targets are often taken from here, so that some are met."""
FORMS = [
    "{}",
    " {}",
    "{}.",
    "The answer is {}.",
    "#### {}\n",
    "{}\n\nQ: {}",
    "({}) or {}!",
    "I think: {} 2020",
    "**{}**",
    "",
]
EOS = 256


def number(*parts: object) -> int:
    """A whole number that depends on the parts only."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def answer_of(prompt: str, time: int) -> str:
    """What is said when a prompt is asked for the n-th time."""
    found = number(prompt, time)
    word = WORDS[found % len(WORDS)]
    word = [word, word, word.lower(), word.upper()][(found >> 8) % 4]
    other = WORDS[(found >> 16) % len(WORDS)]
    return FORMS[(found >> 24) % len(FORMS)].format(word, other)


def cut(text: str, stops: list[str] | str | None) -> str:
    """The text before the first stop."""
    for stop in [stops] if isinstance(stops, str) else stops or []:
        text = text.partition(stop)[0] if stop else text
    return text


def tokens_of(text: str) -> list[int]:
    """A token is a byte; the special text has one of its own."""
    return [token for part in text.split("<|eos|>") for token in [EOS, *part.encode()]][1:]


def text_of(tokens: list[int]) -> str:
    """The text these tokens make."""
    return bytes(token for token in tokens if token < EOS).decode("utf-8", "replace")


def logprobs_of(tokens: list[int]) -> dict[str, Any]:
    """Each token's log-probability after the twelve before it; one in eight is not the likeliest."""
    values: list[float | None] = [None]
    tops: list[dict[str, float] | None] = [None]
    for position in range(1, len(tokens)):
        found = number(tokens[max(0, position - 12) : position], tokens[position])
        value = round(-(found % 4000) / 1000 - 0.001, 6)
        values.append(value)
        better = {"other": round(value / 2, 6)} if (found >> 20) % 8 == 0 else {}
        tops.append({f"t{tokens[position]}": value, **better})
    names = [f"t{token}" for token in tokens]
    return {"tokens": names, "token_logprobs": values, "top_logprobs": tops}


class Answers:
    """The handlers, how often each prompt was asked, and every request."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._bodies: list[Any] = []

    def _answer(self, prompt: str, stops: Any) -> str:
        self._asked[prompt] += 1
        return cut(answer_of(prompt, self._asked[prompt]), stops)

    async def reset(self, _request: web.Request) -> web.Response:
        """Forget what was asked."""
        self._asked.clear()
        self._bodies.clear()
        return web.json_response({})

    async def asked(self, _request: web.Request) -> web.Response:
        """The bodies of all requests since the last reset."""
        return web.json_response(self._bodies)

    async def chat(self, request: web.Request) -> web.Response:
        """A chat completion."""
        body = await request.json()
        self._bodies.append(body)
        text = self._answer(json.dumps(body["messages"], ensure_ascii=False), body.get("stop"))
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"id": "c", "object": "chat.completion", "created": 0, "choices": choices})

    async def complete(self, request: web.Request) -> web.Response:
        """Text completions of one prompt or several, as text or tokens; with `echo`, log-probabilities."""
        body = await request.json()
        self._bodies.append(body)
        prompts = body["prompt"]
        if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
            prompts = [prompts]
        choices = [{"index": at, **self._choice(prompt, body)} for at, prompt in enumerate(prompts)]
        return web.json_response({"id": "t", "object": "text_completion", "created": 0, "choices": choices})

    def _choice(self, prompt: str | list[int], body: dict[str, Any]) -> dict[str, Any]:
        if body.get("echo"):
            tokens = [*(tokens_of(prompt) if isinstance(prompt, str) else prompt), ord(".")]
            return {"text": text_of(tokens), "finish_reason": "length", "logprobs": logprobs_of(tokens)}
        text = prompt if isinstance(prompt, str) else text_of(prompt)
        return {"text": self._answer(text, body.get("stop")), "finish_reason": "stop", "logprobs": None}


async def _tokenizer(_request: web.Request) -> web.Response:
    return web.json_response({"eos_token": "<|eos|>", "bos_token": None, "pad_token": None})


async def _tokenize(request: web.Request) -> web.Response:
    return web.json_response({"tokens": tokens_of((await request.json())["prompt"])})


async def _detokenize(request: web.Request) -> web.Response:
    return web.json_response({"prompt": text_of((await request.json())["tokens"])})


async def serve() -> None:
    """Say the port, serve until standard input ends."""
    answers, app = Answers(), web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", answers.chat)
    app.router.add_post("/v1/completions", answers.complete)
    app.router.add_post("/reset", answers.reset)
    app.router.add_get("/asked", answers.asked)
    app.router.add_get("/tokenizer_info", _tokenizer)
    app.router.add_post("/tokenize", _tokenize)
    app.router.add_post("/detokenize", _detokenize)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)  # noqa: T201 - whoever started this reads it
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


class Endpoint:
    """The endpoint in a process of its own."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__))]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._child.stdout.readline())}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.communicate()

    def reset(self) -> None:
        """Forget what was asked."""
        with urllib.request.urlopen(f"{self.url}/reset", b"{}", timeout=10) as reply:
            reply.read()

    def asked(self) -> list[Any]:
        """The bodies of all requests since the last reset."""
        with urllib.request.urlopen(f"{self.url}/asked", timeout=10) as reply:
            return list(json.loads(reply.read()))


if __name__ == "__main__":
    asyncio.run(serve())
