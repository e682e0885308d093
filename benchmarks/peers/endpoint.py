"""The endpoint of `make bench-peers`: latency, faults, and a memory of what it answered.

It answers as benchmarks/server.py does. `POST /__set` starts anew with a `Behaviour` as JSON. `POST /__mark` remembers
which questions are answered: the moment of a kill. `GET /__stats` returns a `Stats`. Ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from benchmarks.measure import EndpointProcess, endpoint_port
from benchmarks.server import QUESTION, REPLY, HttpRequests, main
from benchmarks.tasks import given_answer

_ERROR = b'{"error":{"message":"%s","type":"server_error","code":null}}'
_FAULT = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
TRANSIENT, PERMANENT = "transient", "permanent"


class Behaviour(NamedTuple):
    """Seconds before an answer, and the kind of faults: none, `TRANSIENT` or `PERMANENT`."""

    latency: float = 0.0
    faults: str = ""


class Stats(NamedTuple):
    """What the endpoint saw since it was set."""

    asked: int
    """Requests with a question."""
    questions: int
    """Different questions among them."""
    answered: int
    """Questions whose answer was sent."""
    again: int
    """Requests after the mark whose question had been answered before it."""
    faults: int
    """Requests that got an error or a closed connection."""
    first: float
    """The time of the first request; 0 without one."""
    last: float
    """The time of the last one."""


def fault_of(number: int, attempt: int, faults: str) -> str:
    """Return the fault of a question's attempt, counted from 0; "" means an answer.

    `TRANSIENT` hits 9 of 100 questions at their first attempt. `PERMANENT` hits 1 of 100 at every attempt; its
    correct answer is lost, so it shows in the accuracy.
    """
    if faults == PERMANENT:
        return "500" if number % 100 == 51 else ""
    if faults == TRANSIENT and attempt == 0:
        if number % 20 == 3:
            return "429"
        return {7: "500", 11: "closed"}.get(number % 50, "")
    return ""


class PeersEndpoint(HttpRequests):
    """One connection. The counters belong to all connections."""

    behaviour: ClassVar[Behaviour] = Behaviour()
    asked: ClassVar[int] = 0
    again: ClassVar[int] = 0
    faults: ClassVar[int] = 0
    first: ClassVar[float] = 0.0
    last: ClassVar[float] = 0.0
    attempts: ClassVar[dict[int, int]] = {}
    answered: ClassVar[set[int]] = set()
    marked: ClassVar[frozenset[int]] = frozenset()

    def answer(self, request: bytes, head: int) -> None:
        """Answer a question, or a request about the counters."""
        cls = PeersEndpoint
        if request.startswith(b"POST /__set"):
            cls.behaviour = Behaviour(**json.loads(request[head + 4 :]))
            cls.asked = cls.again = cls.faults = 0
            cls.first = cls.last = 0.0
            cls.attempts, cls.answered, cls.marked = {}, set(), frozenset()
            self.send(b"{}")
        elif request.startswith(b"POST /__mark"):
            cls.marked = frozenset(cls.answered)
            self.send(b"{}")
        elif request.startswith(b"GET /__stats"):
            counts = (cls.asked, len(cls.attempts), len(cls.answered), cls.again, cls.faults)
            self.send(json.dumps(Stats(*counts, cls.first, cls.last)._asdict()).encode())
        elif found := QUESTION.findall(request, head):
            self._ask(int(found[-1]))
        else:  # such as a list of models
            self._fault(b"404 Not Found", b"")

    def _ask(self, number: int) -> None:
        cls = PeersEndpoint
        cls.last = time.time()
        cls.first = cls.first or cls.last
        cls.asked += 1
        cls.again += number in cls.marked
        attempt = cls.attempts.get(number, 0)
        cls.attempts[number] = attempt + 1
        fault = fault_of(number, attempt, cls.behaviour.faults)
        cls.faults += bool(fault)
        if cls.behaviour.latency:
            loop = asyncio.get_running_loop()
            loop.call_later(cls.behaviour.latency, self._reply, number, fault)
        else:
            self._reply(number, fault)

    def _reply(self, number: int, fault: str) -> None:
        if self._transport.is_closing():
            return
        if fault == "closed":
            self._transport.abort()
        elif fault == "429":
            self._fault(b"429 Too Many Requests", b"Retry-After: 1\r\n")
        elif fault:
            self._fault(b"500 Internal Server Error", b"")
        else:
            PeersEndpoint.answered.add(number)
            self.send(REPLY % (number, given_answer(number)))

    def _fault(self, status: bytes, headers: bytes) -> None:
        body = _ERROR % status
        self._transport.write(_FAULT % (status, headers, len(body)) + body)


class Endpoint(EndpointProcess):
    """The endpoint's process, seen from the program that measures."""

    def behave(self, behaviour: Behaviour) -> None:
        """Forget everything and behave so from now on."""
        self.call("set", json.dumps(behaviour._asdict()).encode())

    def mark(self) -> None:
        """Count repeated questions from here on."""
        self.call("mark", b"{}")

    def stats(self) -> Stats:
        """Return what was asked since `behave`."""
        return Stats(**self.call("stats", None))


@contextmanager
def serving() -> Iterator[Endpoint]:
    """Start the endpoint on the first core. It ends with this block, or with this process."""
    with endpoint_port("benchmarks.peers.endpoint", "--cpu", min(os.sched_getaffinity(0))) as port:
        yield Endpoint(port)


if __name__ == "__main__":
    main(PeersEndpoint)
