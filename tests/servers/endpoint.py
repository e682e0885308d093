"""An OpenAI-compatible endpoint on loopback that can fail, cut its streams and keep callers waiting."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from aiohttp import web

from servers.running import RunningServer

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
VECTOR = [0.10000000149011612, -0.25, 1.0, 3.4028234663852886e38]


class Asked(NamedTuple):
    """One request as it arrived."""

    path: str
    authorization: str
    body: dict[str, Any]


class Endpoint(RunningServer):
    """Every reply carries its number, so no two are alike. `faults` are the statuses given first.

    `message` and `usage` are added to the message and the usage of every reply. With `hold` no request gets a reply
    before so many have arrived.
    """

    def __init__(self, faults: list[int] | None = None, cuts: int = 0, hold: int = 0) -> None:
        self.message: dict[str, Any] = {}
        self.usage: dict[str, Any] = USAGE
        self.asked: list[Asked] = []
        self.faults = faults or []
        self.cuts = cuts
        self.hold = hold
        self.open = asyncio.Event()
        if not hold:
            self.open.set()
        self.busy = asyncio.Event()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.asked.append(Asked(request.path, request.headers.get("Authorization", ""), body))
        self.busy.set()
        if self.hold and len(self.asked) >= self.hold:
            self.open.set()
        await self.open.wait()
        if self.faults:
            return _fault(request, self.faults.pop(0))
        if body.get("stream"):
            return await self._stream(request, f"réply {len(self.asked)}\u2028")
        return web.Response(body=self._reply(request.path), content_type="application/json")

    async def _stream(self, request: web.BaseRequest, text: str) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        for name, value in self.message.items():
            for letter in value:
                await answer.write(_event({"choices": [{"index": 0, "delta": {name: letter}}]}))
        for letter in text:
            await answer.write(_event({"choices": [{"index": 0, "delta": {"content": letter}}]}))
        if self.cuts:
            self.cuts -= 1
            assert request.transport
            request.transport.abort()
            return answer
        await answer.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        await answer.write(_event({"choices": [], "usage": self.usage}) + b"data: [DONE]\n\n")
        return answer

    def _reply(self, path: str) -> bytes:
        """Pretty-printed, as some servers do: the gateway owes the SDK the content, not the layout."""
        number = len(self.asked)
        if path.endswith("/embeddings"):
            vectors = [{"index": 0, "embedding": VECTOR}, {"index": 1, "embedding": [0.1, float(number)]}]
            return json.dumps({"data": vectors, "usage": {"prompt_tokens": 3}}, indent=1).encode()
        text = f"reply {number}"
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"content": text, **self.message}} if "chat" in path else {"text": text}
        return json.dumps(
            {"id": f"r{number}", "choices": [choice], "usage": self.usage, "x": [1, 1.5, None]}, indent=1
        ).encode()


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def _fault(request: web.BaseRequest, status: int) -> web.Response:
    """Status 0 breaks the connection without an answer."""
    if status == 0:
        assert request.transport
        request.transport.abort()
    text = json.dumps({"error": {"message": f"fault {status}", "type": "x", "code": None}})
    return web.Response(status=status or 500, text=text, content_type="application/json", headers={"Retry-After": "0"})
