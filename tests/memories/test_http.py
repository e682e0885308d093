"""The memory http: what it sends to a service, and what it makes of replies. tests/with_system has its contract."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import CaseFailed, ModelError, UsageError
from assay.core.memory import MemoryContext, MemoryItem, Message, Query, SearchHit, Turn
from assay.memories import http

from servers.loopback import ListeningServer
from support.memories import Model, around
from support.memory_talks import Talks, talk

Reply = tuple[int, bytes]
Answer = Callable[[str, dict[str, Any]], Reply]


class Requests:
    """A service: its address, and every request with its key."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[tuple[str, dict[str, Any], str]] = []


@contextmanager
def service(answer: Answer) -> Iterator[Requests]:
    """A service on loopback that replies with status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.seen.append((self.path, body, self.headers.get("Authorization", "")))
            status, payload = answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    with ListeningServer(("127.0.0.1", 0), Handler) as server:
        requests = Requests(f"http://127.0.0.1:{server.server_port}/memory")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield requests
        finally:
            server.shutdown()


def stored(*texts: str) -> Answer:
    """A service that has these items, and finds the last ones first."""
    items = [{"id": f"x{number}", "text": text} for number, text in enumerate(texts)]

    def answer(path: str, body: dict[str, Any]) -> Reply:
        if path == "/memory/search":
            hits = [{**item, "score": 2, "trace": {"by": "order"}} for item in items[::-1]]
            return 200, json.dumps({"hits": hits}).encode()
        return 200, json.dumps({"items": items} if path == "/memory/items" else {}).encode()

    return answer


def make(url: str, **options: Any) -> http.HttpMemory:
    async def base_url() -> str:
        return "http://127.0.0.1:7/v1"

    context = around(Model(), url=url, **options)
    return http.make(MemoryContext(context.ask, context.embed, base_url, context.folder, context.rng, context.options))


TOLD = Message("D1:1", "user: hi", "Ann", "S1", "2024-01-02", (Turn("user", "hi"),))


async def lived(memory: http.HttpMemory, k: int = 5) -> tuple[list[SearchHit], list[MemoryItem]]:
    await memory.add([TOLD])
    return await memory.search(Query("What?", date="2024-02-03"), k), await memory.items()


def test_the_contract_has_four_requests() -> None:
    """The conversation has one name in all of them, and `reset` tells where the run's model is."""
    with service(stored("a", "b")) as requests:
        asyncio.run(lived(make(requests.url)))
    (reset, add, search, *items) = requests.seen
    name = reset[1]["conversation"]
    assert reset[:2] == ("/memory/reset", {"conversation": name, "model_url": "http://127.0.0.1:7/v1"})
    message: dict[str, Any] = {
        "id": "D1:1",
        "text": "user: hi",
        "speaker": "Ann",
        "session": "S1",
        "date": "2024-01-02",
    }
    message["turns"] = [{"role": "user", "text": "hi"}]
    assert add[:2] == ("/memory/add", {"conversation": name, "messages": [message]})
    assert search[:2] == (
        "/memory/search",
        {"conversation": name, "query": "What?", "date": "2024-02-03", "k": 5},
    )
    assert {request[:1] for request in items} == {("/memory/items",)}


def test_items_are_numbered_in_the_order_of_their_creation() -> None:
    """Whatever ids the service has, and although a search saw the last one first."""
    with service(stored("a", "b")) as requests:
        hits, items = asyncio.run(lived(make(requests.url)))
    assert [(item.id, item.text) for item in items] == [("http:1", "a"), ("http:2", "b")]
    assert [(hit.item.id, hit.score, hit.trace) for hit in hits] == [
        ("http:2", 2.0, {"by": "order"}),
        ("http:1", 2.0, {"by": "order"}),
    ]


def test_a_service_may_tell_all_of_an_item() -> None:
    """Session, date, sources, kind, status and metadata are its own."""
    item: dict[str, Any] = {
        "id": "7",
        "text": "t",
        "session": "S1",
        "date": "d",
        "sources": ["D1:1"],
        "kind": "note",
    }
    item |= {"status": "superseded", "metadata": {"a": [1]}, "unknown": 1}
    with service(lambda *_: (200, json.dumps({"items": [item], "hits": []}).encode())) as requests:
        _, items = asyncio.run(lived(make(requests.url)))
    assert items == [MemoryItem("http:1", "t", "S1", "d", ("D1:1",), "note", "superseded", {"a": [1]})]


def test_more_hits_than_asked_for_are_dropped() -> None:
    """And the memory's own k asks for less."""
    with service(stored("a", "b", "c")) as requests:
        hits, _ = asyncio.run(lived(make(requests.url, k=2)))
        assert len(hits) == 2
        assert requests.seen[2][1]["k"] == 2


def test_each_conversation_has_a_name_of_its_own() -> None:
    """Also after a reset, which the service hears of with the next message."""

    async def twice(memory: http.HttpMemory) -> None:
        await lived(memory)
        memory.reset()
        assert await memory.search(Query("What?"), 3) == []
        await lived(memory)

    with service(stored("a")) as requests:
        asyncio.run(twice(make(requests.url)))
    assert len({body["conversation"] for _, body, _ in requests.seen}) == 2
    assert [path for path, _, _ in requests.seen].count("/memory/reset") == 2


def test_a_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its value is sent as a bearer token and stands in no option."""
    monkeypatch.setenv("MY_SERVICE_KEY", "abc-123")
    with service(stored("a")) as requests:
        asyncio.run(lived(make(requests.url, key="MY_SERVICE_KEY")))
    assert {key for _, _, key in requests.seen} == {"Bearer abc-123"}
    with pytest.raises(UsageError, match="key=OTHER_KEY names an environment variable that is not set"):
        make("http://127.0.0.1:1", key="OTHER_KEY")


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x", "http://user:secret@host", "http://host?key=1"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="url=…"):
        make(url)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failing_service_is_asked_again_next_time(status: int) -> None:
    """Its failure is one of the surroundings, with status and the beginning of the body. Nothing is sent twice."""
    body = b'{"error": "out of memory' + b"!" * 1000 + b'"}'
    with service(lambda *_: (status, body)) as requests, pytest.raises(ModelError) as caught:
        asyncio.run(lived(make(requests.url)))
    failure = caught.value.failure
    assert (failure.status, failure.http) == ("infra_error", status)
    assert f"/memory/reset replied {status}: " in failure.message
    assert "out of memory" in failure.message
    assert len(failure.message) < 500
    assert len(requests.seen) == 1


@pytest.mark.parametrize("status", [301, 307, 400, 404])
def test_a_refusal_is_a_fault_of_the_service(status: int) -> None:
    """A redirect is not followed: it would carry messages and key to another place."""
    with service(lambda *_: (status, b"no such thing")) as requests, pytest.raises(CaseFailed) as caught:
        asyncio.run(lived(make(requests.url)))
    assert f"replied {status}: no such thing" in str(caught.value)
    assert len(requests.seen) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"hits": [{"id": 1, "text": "a"}]}', b'{"hits": {}}', b"{}"])
def test_a_reply_of_another_form_is_quoted(body: bytes) -> None:
    """With what is wrong in it."""

    def answer(path: str, _: dict[str, Any]) -> Reply:
        return 200, body if path.endswith("search") else b"{}"

    with service(answer) as requests, pytest.raises(CaseFailed, match="/search replied 200 with something"):
        asyncio.run(lived(make(requests.url)))


@pytest.mark.parametrize("name", ["reset", "add"])
@pytest.mark.parametrize("body", [b"", b"<html>login", b"{} ok"])
def test_a_reply_that_is_no_json_is_a_fault_of_the_service(name: str, body: bytes) -> None:
    """Such as the page of a login, with status 200."""

    def answer(path: str, _: dict[str, Any]) -> Reply:
        return 200, body if path.endswith(name) else b"{}"

    with service(answer) as requests, pytest.raises(CaseFailed) as caught:
        asyncio.run(lived(make(requests.url)))
    message = str(caught.value)
    assert f"{requests.url}/{name} replied 200 with something that is not in the contract: " in message
    assert body.decode() in message
    assert requests.seen[-1][0] == f"/memory/{name}"


def test_a_service_that_is_not_there_is_out_of_reach() -> None:
    with pytest.raises(ModelError, match=r"127.0.0.1:9/reset is out of reach"):
        asyncio.run(lived(make("http://127.0.0.1:9")))


def test_a_slow_service_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def answer(*_: Any) -> Reply:
        done.wait(20)
        return 200, b"{}"

    with service(answer) as requests:
        with pytest.raises(ModelError, match=r"took longer than 0.2 s"):
            asyncio.run(lived(make(requests.url, timeout=0.2)))
        done.set()


def test_a_reply_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 1 << 20)
    with (
        service(lambda *_: (200, b" " * (2 << 20))) as requests,
        pytest.raises(CaseFailed, match="more than 1 MB"),
    ):
        asyncio.run(lived(make(requests.url)))


def test_a_service_without_a_model_needs_none(tmp_path: Path) -> None:
    """It is told so by an empty address, and a run that only searches starts without --model."""
    with service(stored("a")) as requests:
        run = Talks(tmp_path, talk()).run(memory=["http"], memory_args={"url": requests.url}, model="", no_answer=True)
    assert run.exit_code == 0
    assert {body["model_url"] for path, body, _ in requests.seen if path == "/memory/reset"} == {""}
