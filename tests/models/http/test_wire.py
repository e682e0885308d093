"""Responses as servers send them: every form of body, split anywhere, and bytes that are not a response."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from assay.core.errors import ModelError
from assay.models.http.client import HttpEndpoint, bearer
from assay.models.http.wire import (
    MAX_HEAD_BYTES,
    MAX_KEPT_HEADS,
    Headers,
    HttpResponse,
    HttpUrl,
    ParsedHeads,
    ResponseError,
    ResponseHead,
    ResponseParser,
    parse_head,
    parse_url,
)

from servers.wired import OK, Run, Wire, Wired, says

_RAW = zlib.compressobj(wbits=-15)
DEFLATED = _RAW.compress(b"hello") + _RAW.flush()
START = b"HTTP/1.1 200 OK\r\n"


def sized(body: bytes, *fields: bytes) -> bytes:
    return START + b"".join(field + b"\r\n" for field in fields) + b"Content-Length: %d\r\n\r\n" % len(body) + body


KEPT: dict[str, tuple[bytes, int, bytes]] = {
    "length": (OK, 200, b"hi"),
    "empty": (sized(b""), 200, b""),
    "no reason": (OK.replace(b" OK", b""), 200, b"hi"),
    "error": (OK.replace(b"200 OK", b"503 Service Unavailable"), 503, b"hi"),
    "redirect to nowhere": (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", 302, b""),
    "chunked": (START + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, b"hi"),
    "chunks": (
        START + b"transfer-encoding:Chunked\r\n\r\n"
        b'3;name="a;b"\r\na\r\n\r\n00B ; x\r\n0123456789\n\r\n0;end\r\nExpires: never\r\nX: y\r\n\r\n',
        200,
        b"a\r\n0123456789\n",
    ),
    "announced": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n" + OK, 200, b"hi"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "names in any case": (START + b"CONTENT-lenGTH:\t2 \r\n\r\nhi", 200, b"hi"),
    "spaces": (START + b"A : b\r\nContent-Length : 2\r\n\r\nhi", 200, b"hi"),
    "folded": (START + b"A: b\r\n\tc\r\nContent-Length:\r\n 2\r\n\r\nhi", 200, b"hi"),
    "bare newlines": (b"HTTP/1.1 200 OK\nA: b\nContent-Length: 6\n\nh\r\n\r\ni", 200, b"h\r\n\r\ni"),
    "newlines before": (b"\r\n\r\n" + OK, 200, b"hi"),
    "same length twice": (sized(b"hi", b"Content-Length: 2"), 200, b"hi"),
    "a name within a value": (sized(b"hi", b"X: content-length: 7", b"X-Content-Length: 9"), 200, b"hi"),
    "1.0 that stays": (
        b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi",
        200,
        b"hi",
    ),
    "gzip": (sized(gzip.compress(b"hello"), b"Content-Encoding: gzip"), 200, b"hello"),
    "gzip twice": (
        sized(gzip.compress(b"hel") + gzip.compress(b"lo"), b"Content-Encoding: gzip"),
        200,
        b"hello",
    ),
    "zlib": (sized(zlib.compress(b"hello"), b"content-encoding: deflate"), 200, b"hello"),
    "deflate": (sized(DEFLATED, b"Content-Encoding: deflate"), 200, b"hello"),
    "identity": (sized(b"hello", b"Content-Encoding: identity"), 200, b"hello"),
}
CLOSED: dict[str, tuple[bytes, int, bytes]] = {
    "said so": (sized(b"hi", b"Connection: close"), 200, b"hi"),
    "until close": (START + b"\r\nhi there", 200, b"hi there"),
    "until close, empty": (START + b"\r\n", 200, b""),
    "1.0": (b"HTTP/1.0 200 OK\r\n\r\nhi there", 200, b"hi there"),
    "1.0 with length": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
    "more than it says": (OK + b"garbage", 200, b"hi"),
    "another one nobody asked for": (OK + OK, 200, b"hi"),
    "chunked and more": (START + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n!", 200, b"hi"),
    "other protocol": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", 101, b""),
}
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "Server disconnected"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", "it sent no HTTP response: b'SSH-2.0-OpenSSH"),
    "no HTTP, no line": (b"\x15\x03\x03\x00", "it sent no HTTP response"),
    "bad status": (OK.replace(b"200", b"20"), "it sent no HTTP response"),
    "half a head": (OK[:20], "in the middle of its headers"),
    "half a body": (OK.replace(b": 2", b": 20"), "not completed: 2 bytes arrived of 20"),
    "half a chunk": (START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhi", "not completed: 2 bytes arrived"),
    "no last chunk": (START + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "not completed: 2 bytes"),
    "no end of trailers": (START + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", "not completed"),
    "bad chunk size": (START + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n", "size of a chunk is wrong"),
    "chunk too long": (START + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhiyou\r\n", "longer than it says"),
    "endless line": (
        START + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 9000,
        "line between its chunks",
    ),
    "bad length": (OK.replace(b": 2", b": two"), "Content-Length is wrong: b'two'"),
    "negative length": (OK.replace(b": 2", b": -2"), "Content-Length is wrong"),
    "two lengths": (sized(b"hi", b"Content-Length: 3"), "Content-Length is wrong"),
    "length and chunks": (sized(b"hi", b"Transfer-Encoding: chunked"), "contradict"),
    "long head": (START + b"X: y\r\n" * (MAX_HEAD_BYTES // 6) + b"\r\n", "longer than 64 KB"),
    "endless head": (START + b"X: " + b"y" * MAX_HEAD_BYTES, "longer than 64 KB"),
    "endless status": (b"HTTP/1.1 200 " + b"y" * MAX_HEAD_BYTES, "it sent no HTTP response"),
    "brotli": (sized(b"hi", b"Content-Encoding: br"), "compressed as br"),
    "damaged gzip": (sized(b"hello", b"Content-Encoding: gzip"), "compressed body is damaged"),
    "half a gzip": (sized(gzip.compress(b"hello")[:-3], b"Content-Encoding: gzip"), "body is not complete"),
}
WHOLE = KEPT | CLOSED


async def ask(server: Wired, times: int = 1, seconds: float = 20.0) -> list[HttpResponse]:
    """Replies to so many requests, one after the other."""
    endpoint = HttpEndpoint(server.url, bearer("k"), seconds)
    try:
        return [await endpoint.post("/x", b'{"a":1}') for _ in range(times)]
    finally:
        await endpoint.close()


@pytest.mark.parametrize("name", KEPT)
def test_a_clean_reply_keeps_its_connection(run: Run, name: str) -> None:
    sent, status, body = KEPT[name]

    async def main() -> None:
        async with Wired(says(sent)) as server:
            for reply in await ask(server, 3):
                assert (reply.status, reply.body) == (status, body)
            assert len(server.wires) == 1

    run(main)


@pytest.mark.parametrize("name", CLOSED)
def test_a_reply_that_ends_its_connection_is_whole_and_the_next_request_opens_another(run: Run, name: str) -> None:
    sent, status, body = CLOSED[name]

    async def main() -> None:
        async with Wired(says(sent, close=True)) as server:
            for reply in await ask(server, 3):
                assert (reply.status, reply.body) == (status, body)
            assert [len(wire.requests) for wire in server.wires] == [1, 1, 1]

    run(main)


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_reply_is_a_fault_of_the_connection(run: Run, name: str) -> None:
    """The fault may be retried, and the connection is not used again."""
    sent, said = BROKEN[name]

    async def main() -> None:
        async with Wired(says(sent, close=True)) as server:
            for _ in range(2):
                with pytest.raises(ModelError) as caught:
                    await ask(server)
                failure = caught.value.failure
                assert (failure.kind, caught.value.retry) == ("connection", True)
                assert failure.message.startswith(f"the connection to {server.url} broke: ")
                assert said in failure.message
            assert [len(wire.requests) for wire in server.wires] == [1, 1]

    run(main)


def fed(pieces: list[bytes]) -> tuple[HttpResponse | str, bool]:
    """Feed the pieces to a parser. Returns the response, and whether the connection can be reused."""
    parser = ResponseParser()
    try:
        for piece in pieces:
            if (reply := parser.feed(piece)) is not None:
                return reply, parser.keep_alive
        return parser.feed_eof(), False
    except ResponseError as error:
        return str(error), False


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_where_the_network_cuts_makes_no_difference(data: st.DataObject) -> None:
    """Any cut of any reply gives the same status, headers and body."""
    sent, status, body = WHOLE[data.draw(st.sampled_from(sorted(WHOLE)))]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=12)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    reply, _ = fed(pieces)
    assert isinstance(reply, HttpResponse)
    assert (reply.status, reply.body) == (status, body)
    whole, _ = fed([sent])
    assert isinstance(whole, HttpResponse)
    assert dict(reply.headers) == dict(whole.headers)


@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_byte_by_byte_it_is_the_same(name: str) -> None:
    sent = WHOLE[name][0] if name in WHOLE else BROKEN[name][0]
    reply, keep = fed([sent[at : at + 1] for at in range(len(sent))])
    if name in WHOLE:
        assert isinstance(reply, HttpResponse)
        assert (reply.status, reply.body) == WHOLE[name][1:]
        assert keep or name not in KEPT
    else:
        assert isinstance(reply, str)


@given(st.lists(st.binary(max_size=40), max_size=6))
@settings(max_examples=300, deadline=None)
def test_bytes_of_any_kind_are_a_reply_or_a_fault(pieces: list[bytes]) -> None:
    """Nothing that a server may send raises anything else."""
    for start in (
        b"",
        START,
        START + b"Transfer-Encoding: chunked\r\n\r\n",
        START + b"Content-Encoding: gzip\r\n\r\n",
    ):
        fed([start, *[piece for piece in pieces if piece]])


@pytest.mark.parametrize("name", ["chunks", "announced", "folded", "gzip", "until close"])
def test_packets_of_few_bytes_arrive_as_one_reply(run: Run, name: str) -> None:
    """The same over a real connection."""
    sent, status, body = WHOLE[name]

    async def main() -> None:
        pieces = [sent[at : at + 3] for at in range(0, len(sent), 3)]
        async with Wired(says(*pieces, close=name in CLOSED)) as server:
            for reply in await ask(server, 2):
                assert (reply.status, reply.body) == (status, body)

    run(main)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_whole(run: Run, chunked: bool) -> None:
    body = bytes(range(256)) * 4 * 1024 * 40
    size = 1_000_003
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    sent = START + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n" if chunked else sized(body)

    async def main() -> None:
        async with Wired(says(sent)) as server:
            for reply in await ask(server, 2, 120.0):
                assert reply.body == body
            assert len(server.wires) == 1

    run(main)


def test_requests_are_sent_to_the_letter(run: Run) -> None:
    """The headers that servers need and no others, in this order."""

    async def main() -> None:
        async with Wired(says(OK)) as server:
            endpoint = HttpEndpoint(server.url + "/", bearer("sk-ö"), 20.0)
            bare = HttpEndpoint(f"http://localhost:{server.port}", None, 20.0)
            await endpoint.post("/x?y=1", "ü".encode())
            await endpoint.get("/x")
            await bare.post("/ü b", b"")
            await endpoint.close()
            await bare.close()
            common = b"HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % server.port
            common += "Authorization: Bearer sk-ö\r\n".encode()
            first, second = (wire.requests for wire in server.wires)
            assert first == [
                b"POST /v1/x?y=1 " + common + b"Content-Length: 2\r\n\r\n" + "ü".encode(),
                b"GET /v1/x " + common + b"\r\n",
            ]
            assert second == [
                b"POST /%%C3%%BC%%20b HTTP/1.1\r\nHost: localhost:%d\r\n" % server.port
                + b"Content-Type: application/json\r\nContent-Length: 0\r\n\r\n"
            ]

    run(main)


def test_headers_are_found_in_any_case_and_the_first_counts() -> None:
    headers = Headers(b"\nretry-after:3 \r\nX: a:b\r\nRETRY-AFTER: 4\r\nno colon\r\nL: \xe9")
    assert headers.get("Retry-After") == headers["retry-AFTER"] == "3"
    assert headers.get("Missing") is None
    assert dict(headers) == {"retry-after": "3", "x": "a:b", "l": "\udce9"}
    assert "X" in headers


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://host/v1", HttpUrl("host", 80, tls=False, host_header="host", path="/v1")),
        ("https://HOST:443", HttpUrl("host", 443, tls=True, host_header="host", path="/")),
        (
            "https://host:8443/a%20b?c=d e#f",
            HttpUrl("host", 8443, tls=True, host_header="host:8443", path="/a%20b?c=d%20e"),
        ),
        ("http://[::1]:80/", HttpUrl("::1", 80, tls=False, host_header="[::1]", path="/")),
        ("http://[::1]:81/", HttpUrl("::1", 81, tls=False, host_header="[::1]:81", path="/")),
        (
            "http://bücher.example/",
            HttpUrl("xn--bcher-kva.example", 80, tls=False, host_header="xn--bcher-kva.example", path="/"),
        ),
    ],
)
def test_a_url_is_taken_apart(url: str, found: HttpUrl) -> None:
    assert parse_url(url) == found


@pytest.mark.parametrize("url", ["ftp://host", "host/v1", "http:///v1", "http://host:99999", "http://[::1"])
def test_a_url_that_names_no_endpoint_is_a_fault(run: Run, url: str) -> None:
    async def main() -> None:
        with pytest.raises(ModelError) as caught:
            await HttpEndpoint(url, None, 1.0).get("/x")
        assert caught.value.failure.kind == "connection"
        assert f"{url}/x" in caught.value.failure.message

    run(main)


def test_an_answer_before_the_whole_request_counts_and_ends_the_connection(run: Run) -> None:
    """What was not sent yet would be read as the next request."""

    async def script(wire: Wire) -> None:
        await wire.reader.readuntil(b"\r\n\r\n")
        await wire.send(OK.replace(b"200", b"413"))
        await asyncio.sleep(60)

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            for _ in range(2):
                assert (await endpoint.post("/x", b"x" * 30_000_000)).status == 413
            assert len(server.wires) == 2
            await endpoint.close()

    run(main)


HEADS = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.0 500 No\n",
            b"Content-Length: 2\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"Connection: close\r\n",
            b" folded\r\n",
            b"\r\n",
            b"\n",
            b"hi",
            b"x: y",
        ]
    ),
    max_size=8,
).map(b"".join)


@given(st.lists(HEADS, max_size=12))
def test_remembered_heads_are_those_that_would_be_parsed(pieces: list[bytes]) -> None:
    heads = ParsedHeads()
    for piece in [*pieces, *pieces]:
        assert _outcome(heads.parse, piece) == _outcome(parse_head, piece)


def _outcome(parse: Callable[[bytes], ResponseHead | None], data: bytes) -> object:
    try:
        head = parse(data)
    except ResponseError as error:
        return str(error)
    return head and (*head[:1], dict(head.headers), *head[2:])


def test_few_heads_are_remembered_although_each_reply_has_another() -> None:
    heads = ParsedHeads()
    for number in range(10 * MAX_KEPT_HEADS):
        head = heads.parse(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-request-id: %d\r\n\r\nhi" % number)
        assert head is not None
        assert head.headers["x-request-id"] == str(number)
    assert len(heads) <= MAX_KEPT_HEADS
