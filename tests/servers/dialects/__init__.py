"""A server on loopback that speaks the dialect of a vendor: its documented requests, replies and errors.

    with DialectServer(Anthropic(), answer) as server:
        assay.spec("task", model=server.model, base_url=server.url, …)

It rejects what the vendor's API rejects, in the vendor's words: fields that the API does not have, wrong roles, a missing
key or version, parameters that a reasoning model does not take. `answer` gets the messages in OpenAI's form, whatever
the dialect, and returns what the model says, or the fault that the endpoint has.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from servers.loopback import ListeningServer

KEY = "key-of-the-test-0123"
FILTERED, REFUSED, OVERFLOW, LIMITED, BROKEN = "filtered", "refused", "overflow", "limited", "broken"
"""Faults. FILTERED is the vendor's policy error, REFUSED a reply in which the model declines."""

Messages = list[dict[str, Any]]


class Reply(NamedTuple):
    """What the model says, or a fault instead."""

    text: str = ""
    reasoning: str = ""
    fault: str = ""


class Seen(NamedTuple):
    """One request as it arrived. Names of headers are in lower case."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: dict[str, Any]


Answer = Callable[[Messages], Reply]
Result = tuple[int, Any]


class Dialect(ABC):
    """One vendor's API."""

    provider: str
    name: str
    """A model that takes all parameters."""
    reasoner: str
    """A model that rejects the parameters that the vendor's reasoning models reject."""
    path = ""
    """The end of the base URL that people give."""
    embeds = False

    @abstractmethod
    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a request that the API would reject."""

    @abstractmethod
    def messages(self, body: dict[str, Any]) -> Messages:
        """Return the conversation in OpenAI's form."""

    @abstractmethod
    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a good reply."""

    @abstractmethod
    def fault(self, name: str) -> Result:
        """Return the status and the body of a fault, in the vendor's words."""

    def vectors(self, seen: Seen) -> Any:
        """Return the reply to a request for embeddings, or None if it is not one."""
        return None


class DialectServer:
    """Answers POST in a dialect and keeps every request."""

    def __init__(self, dialect: Dialect, answer: Answer) -> None:
        self.dialect = dialect
        self.seen: list[Seen] = []
        """All requests, those that were rejected too."""
        self.rejected: list[Any] = []
        """The errors for requests that the API would reject."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: else each reply waits 40 ms for an ACK
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                url = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen = Seen(url.path, dict(parse_qsl(url.query)), headers, body)
                server.seen.append(seen)
                status, value = server._answer(seen, answer)
                payload = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ListeningServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def _answer(self, seen: Seen, answer: Answer) -> Result:
        problem = self.dialect.problem(seen)
        if problem is not None:
            self.rejected.append(problem)
            return problem
        vectors = self.dialect.vectors(seen)
        if vectors is not None:
            return 200, vectors
        reply = answer(self.dialect.messages(seen.body))
        if reply.fault:
            return self.dialect.fault(reply.fault)
        return 200, self.dialect.reply(reply, seen.body)

    @property
    def root(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def url(self) -> str:
        """What to give as --base-url."""
        return self.root + self.dialect.path

    @property
    def model(self) -> str:
        """What to give as --model."""
        return f"{self.dialect.provider}/{self.dialect.name}"

    @property
    def reasoner(self) -> str:
        """What to give as --model for the model with fewer parameters."""
        return f"{self.dialect.provider}/{self.dialect.reasoner}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()


def tokens(text: str) -> int:
    """A count of tokens that is more than nothing."""
    return len(text.split()) + 1


def vector(text: str) -> list[float]:
    """A vector of a text, which differs between texts of other letters."""
    return [float(text.count(letter)) for letter in "aeiou"]
