"""An OpenAI-compatible endpoint that costs almost nothing: raw asyncio.Protocol, uvloop where installed.

The answer to the last `Q<number>:` of a request is a function of the number, wrong for every fifth one.
`GET /__stats` tells what was asked, `POST /__reset` forgets it. Ends when its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

from benchmarks.tasks import given_answer

QUESTION = re.compile(rb"Q(\d{1,9}):")
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
# Takes the number of the question and its answer.
REPLY = (
    b'{"id":"chatcmpl-%d","object":"chat.completion","created":1700000000,"model":"fake","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%d","refusal":null},"logprobs":null,"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":24,"completion_tokens":2,"total_tokens":26},"system_fingerprint":"fp_fake"}'
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class HttpRequests(asyncio.Protocol, ABC):
    """One connection of a client. Calls `answer` for every whole request."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        buffer = self._buffer + data
        while (head := buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(buffer, 0, head)
            end = head + 4 + (int(length.group(1)) if length else 0)
            if len(buffer) < end:
                break
            self.answer(buffer[:end], head)
            buffer = buffer[end:]
        self._buffer = buffer

    @abstractmethod
    def answer(self, request: bytes, head: int) -> None:
        """Answer a request, now or later. `head` is the length of its head."""

    def send(self, body: bytes) -> None:
        """Send a JSON body with status 200."""
        self._transport.write(_HEAD % len(body) + body)


class Endpoint(HttpRequests):
    """One connection; the counters are everybody's."""

    asked: ClassVar[int] = 0
    first: ClassVar[float] = 0.0

    def answer(self, request: bytes, head: int) -> None:
        """Answer a question, or a request about the counters."""
        if request.startswith(b"GET /__stats"):
            self.send(json.dumps({"asked": Endpoint.asked, "first": Endpoint.first}).encode())
        elif request.startswith(b"POST /__reset"):
            Endpoint.asked, Endpoint.first = 0, 0.0
            self.send(b"{}")
        else:
            Endpoint.first = Endpoint.first or time.time()
            Endpoint.asked += 1
            found = QUESTION.findall(request, head)
            number = int(found[-1]) if found else 1
            self.send(REPLY % (number, given_answer(number)))


async def serve(protocol: type[HttpRequests]) -> None:
    """Say the port, serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main(protocol: type[HttpRequests]) -> None:
    """Serve on one core, if the command line names one, until standard input ends."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--cpu", type=int, help="run on this core only")
    cpu = parser.parse_args().cpu
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(protocol))


if __name__ == "__main__":
    main(Endpoint)
