"""Only the person at this machine and our own pages reach the server."""

from __future__ import annotations

import asyncio
from io import BytesIO
from pathlib import Path

import pytest

from assay.view.guard import MAX_BODY, Guard

from support.runs import run_of
from support.web import view_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run_of(tmp_path / "results" / "assay" / "one", {"a": True, "b": False})
    return tmp_path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost.evil.example:7575"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "[::1].evil.example"}, 421),
        ({"Host": "[::1]evil:1"}, 421),
        ({"Host": "127.0.0.1:80@evil.example"}, 421),
        ({"Host": "localhost:abc"}, 421),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
    ],
)
def test_requests_of_other_websites_are_refused(root: Path, headers: dict[str, str], status: int) -> None:
    async def ask() -> None:
        async with view_of(root) as client:
            for path in ("/", "/run/results/assay/one", "/static/assay.js", "/nowhere"):
                response = await client.get(path, headers=headers)
                if status != 200:
                    # One line. A page would tell the token and the folder.
                    assert (await response.text()).count("\n") == 1
                assert response.status == (404 if status == 200 and path == "/nowhere" else status), path

    asyncio.run(ask())


async def send_bytes(root: Path, request: bytes) -> bytes:
    """Send bytes that no client would send, and return the first line of the answer."""
    async with view_of(root) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(request)
        line = await reader.readline()
        writer.close()
    return line


def test_a_request_without_a_host_is_refused(root: Path) -> None:
    assert b" 421 " in asyncio.run(send_bytes(root, b"GET / HTTP/1.0\r\n\r\n"))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd"
        ),
    ],
    ids=["no request", "address", "header", "long line", "chunk", "compressed"],
)
def test_a_malformed_request_prints_nothing(
    root: Path, request_bytes: bytes, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Any website can send them."""
    assert b" 400 " in asyncio.run(send_bytes(root, request_bytes))
    assert not caplog.records
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_than_get_need_the_token_of_the_page_in_a_form(root: Path, method: str) -> None:
    guard = Guard("127.0.0.1")
    body = f"token={guard.page_token}"

    async def ask() -> None:
        async with view_of(root, guard) as client:
            assert (await client.request(method, "/")).status == 403
            assert (await client.request(method, "/", data="token=wrong", headers=FORM)).status == 403
            json = {"Content-Type": "application/json"}
            assert (await client.request(method, "/", data=body, headers=json)).status == 403
            plain = {"Content-Type": "text/plain"}
            assert (await client.request(method, "/", data=body, headers=plain)).status == 403
            # The token is right. No page of this server takes the method yet.
            assert (await client.request(method, "/", data=body, headers=FORM)).status == 405

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/x-www-form-urlencoded; charset=nope"}, b"a=b"),
        ({"Content-Type": "application/x-www-form-urlencoded; charset=utf-16"}, b"abc"),
        (FORM, b"a=\xff"),
        (FORM | {"Content-Encoding": "gzip"}, b"a=b"),
    ],
    ids=["unknown charset", "other charset", "no UTF-8", "no gzip"],
)
def test_a_form_that_cannot_be_read_is_refused(root: Path, headers: dict[str, str], body: bytes) -> None:
    async def ask() -> None:
        async with view_of(root) as client:
            response = await client.post("/quickstart", data=BytesIO(body), headers=headers)
            assert response.status == 400
            assert "The form cannot be read" in await response.text()

    asyncio.run(ask())


def test_a_form_that_is_too_large_is_refused(root: Path) -> None:
    async def ask() -> None:
        async with view_of(root) as client:
            body = BytesIO(b"x=" + b"y" * MAX_BODY)
            assert (await client.post("/", data=body, headers=FORM)).status == 413

    asyncio.run(ask())


def test_every_response_forbids_inline_scripts_frames_and_other_servers(root: Path) -> None:
    async def ask() -> None:
        async with view_of(root) as client:
            for path in ("/", "/run/results/assay/one", "/static/assay.css", "/nowhere", "/live"):
                headers = (await client.get(path)).headers
                policy = headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert headers["X-Content-Type-Options"] == "nosniff"
                assert headers["Referrer-Policy"] == "same-origin"
                assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
                assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
                assert headers["Cache-Control"] == "no-store"

    asyncio.run(ask())


def test_outside_of_loopback_everything_needs_the_secret_and_a_cookie_keeps_it(root: Path) -> None:
    guard = Guard("0.0.0.0")

    async def ask() -> None:
        async with view_of(root, guard) as client:
            for path in ("/", "/static/assay.css", "/live", "/?token=wrong"):
                assert (await client.get(path)).status == 403
            response = await client.get(f"/?q=x&token={guard.secret}", allow_redirects=False)
            assert (response.status, response.headers["Location"]) == (303, "/?q=x")
            cookie = response.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            client.session.cookie_jar.update_cookies(response.cookies, response.url)
            assert (await client.get("/")).status == 200

    asyncio.run(ask())


def test_a_server_for_all_addresses_answers_to_addresses_but_not_to_foreign_names() -> None:
    guard = Guard("0.0.0.0")
    assert guard._is_our_host("192.168.1.7:7575")
    assert guard._is_our_host("[fe80::1]:7575")
    assert not guard._is_our_host("evil.example:7575")
    assert Guard("127.0.0.1").secret is None
    assert Guard("127.0.0.1", needs_secret=True).secret
    assert not Guard("127.0.0.1")._is_our_host("192.168.1.7:7575")


def test_no_address_leads_out_of_the_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Dots, encoded dots and slashes, absolute paths, zero bytes, and links to other folders."""
    outside = tmp_path_factory.mktemp("outside") / "assay" / "secret"
    run_of(outside, {"a": True})
    (root / "results" / "assay" / "link").symlink_to(outside)
    (root / "other").symlink_to(outside.parent)
    up = "/".join([".."] * len(root.parts))

    async def ask() -> None:
        async with view_of(root) as client:
            for name in (
                f"{up}{outside}",
                outside,
                f"/{outside}",
                "results/assay/link",
                "other/secret",
                f"results/assay/one/../../../{up}{outside}",
                "results/assay/one%00",
                "results/assay/one/run.json",
                "results",
                "",
                "a" * 5000,
            ):
                for escaped in (str(name), str(name).replace("/", "%2f"), str(name).replace(".", "%2e")):
                    for page in ("run/", "case/0/", "raw/0/", "live?run="):
                        response = await client.get(f"/{page}{escaped}")
                        assert response.status == 404, f"/{page}{escaped}"
            assert (await client.get("/static/..%2fserver.py")).status == 404
            assert (await client.get("/run/results/assay/one")).status == 200
            listed = await (await client.get("/")).text()
            assert "1 run behind links that lead out of this folder" in listed

    asyncio.run(ask())


def test_the_folder_itself_may_be_a_run(root: Path) -> None:
    async def ask() -> None:
        async with view_of(root / "results" / "assay" / "one") as client:
            assert 'href="/run/"' in await (await client.get("/")).text()
            assert (await client.get("/run/")).status == 200
            assert (await client.get("/case/0/")).status == 200

    asyncio.run(ask())
