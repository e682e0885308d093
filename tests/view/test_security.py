"""What nobody may do with the server, asked of every address that it has. New pages are asked too, without a change here."""

from __future__ import annotations

import asyncio
import os
import re
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError
from aiohttp.test_utils import TestClient
from yarl import URL

from assay.core.suite_pages import SuitePages
from assay.runner import api
from assay.usercode.named_code import only_named_code
from assay.view.guard import HEADERS, MAX_BODY, Guard
from assay.view.server import ROUTES
from view.hostile import STRINGS
from view.test_hostile import check

from support.runs import run_of
from support.web import Page, serving, view_of

RUN = "results/assay/one"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run_of(tmp_path / RUN, {"a": True, "b": False})
    return tmp_path


def visit(root: Path, look: Callable[[TestClient[Any, Any]], Awaitable[None]], guard: Guard | None = None) -> None:
    async def both() -> None:
        async with view_of(root, guard) as client:
            await look(client)

    asyncio.run(both())


def address_of(path: str, **values: str) -> str:
    """The address of a route, with values for its names. A name that has none is 0 if it is a number, else `x`."""

    def value(match: re.Match[str]) -> str:
        name, pattern = match[1], match[2] or ""
        return values.get(name, "0" if r"\d" in pattern else "x")

    return re.sub(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}", value, path)


def all_routes(*methods: str) -> list[tuple[str, str]]:
    return [(method, path) for method, path, _ in ROUTES if method in methods or not methods]


# Other websites


def test_every_address_refuses_every_sign_of_another_website(root: Path) -> None:
    """421 for a foreign Host, 403 for a foreign Origin or Sec-Fetch-Site, whatever else is right."""
    hosts = [
        None,
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "127.0.0.1@evil.example",
        "0",
        "[::2]",
    ]
    sites = [None, "same-origin", "none", "same-site", "cross-site", "Same-Origin ", "x"]
    origins = [None, "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1", "file://", ""]
    ours = {None, "same-origin", "none"}

    async def look(client: TestClient[Any, Any]) -> None:
        for (method, path), (number, (host, site, origin)) in zip(
            all_routes() * 60, enumerate(product(hosts, sites, origins)), strict=False
        ):
            if (host, origin) == (None, None) and site in ours:
                continue  # these are our own
            headers = {"Host": host, "Sec-Fetch-Site": site, "Origin": origin}
            given = {name: value for name, value in headers.items() if value is not None}
            response = await client.request(method, address_of(path, run=RUN), headers=given)
            expected = 421 if host is not None else 403
            assert response.status == expected, (number, method, path, given)
            assert "Set-Cookie" not in response.headers

    visit(root, look)


def test_no_response_allows_other_websites_to_read_it(root: Path) -> None:
    """No address has a header of CORS, also not for the question of a browser before it asks across origins."""

    async def look(client: TestClient[Any, Any]) -> None:
        for _, path in all_routes():
            address = address_of(path, run=RUN)
            preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            for response in (
                await client.request("HEAD", address),
                await client.options(address, headers=preflight),
                await client.options(address),
            ):
                assert not [name for name in response.headers if name.lower().startswith("access-control")]
                for name, value in HEADERS.items():
                    assert response.headers[name] == value, address
            assert (await client.options(address, headers=preflight)).status == 403

    visit(root, look)


# Requests that change something


def test_every_address_that_changes_something_needs_the_token_in_a_form_of_our_own(root: Path) -> None:
    guard = Guard("127.0.0.1")
    right = f"token={guard.page_token}"
    posts = all_routes("POST", "PUT", "DELETE", "PATCH") or [("POST", "/")]

    async def look(client: TestClient[Any, Any]) -> None:
        for method, path in posts:
            address = address_of(path, run=RUN)
            for body, headers in (
                ("", FORM),
                ("token=", FORM),
                ("token=wrong", FORM),
                (f"{right}x", FORM),
                (right.upper(), FORM),
                (right, {"Content-Type": "text/plain"}),
                (right, {"Content-Type": "application/json"}),
                (right, {"Content-Type": "multipart/form-data; boundary=x"}),
                (right, {**FORM, "Origin": "http://evil.example"}),
                (right, {**FORM, "Sec-Fetch-Site": "cross-site"}),
                (right, {**FORM, "Sec-Fetch-Site": "same-site"}),
            ):
                response = await client.request(method, address, data=body, headers=headers)
                assert response.status == 403, (method, address, body, headers)
            # The token in the address, in a header or in a cookie is no token.
            for query, headers in ((right, {}), ("", {"Token": guard.page_token}), ("", {"Cookie": right})):
                response = await client.request(method, f"{address}?{query}", headers={**FORM, **headers})
                assert response.status == 403, (method, address, query, headers)
            large = b"token=" + b"x" * MAX_BODY
            assert (await client.request(method, address, data=_chunks(large), headers=FORM)).status == 413

    visit(root, look, guard)


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    """A body without a length."""
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def test_pages_change_nothing_and_take_no_other_method(root: Path) -> None:
    guard = Guard("127.0.0.1")
    body = f"token={guard.page_token}"
    taken: dict[str, set[str]] = {}
    for method, path, _ in ROUTES:
        taken.setdefault(path, {"HEAD"} if method == "GET" else set()).add(method)

    async def look(client: TestClient[Any, Any]) -> None:
        for path, methods in taken.items():
            for method in {"POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"} - methods:
                response = await client.request(method, address_of(path, run=RUN), data=body, headers=FORM)
                assert response.status in (403, 405), (method, path)

    visit(root, look, guard)


# Paths


def test_no_address_of_a_run_leads_out_of_the_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every route with `{run}`: dots, encoded and twice encoded, links, loops, zero bytes, long names, files."""
    outside = tmp_path_factory.mktemp("outside")
    run_of(outside / "secret", {"a": True})
    (root / "link").symlink_to(outside / "secret")
    (root / "parent").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    (root / "run.json.link").symlink_to(outside / "secret" / "run.json")
    up = "../" * len(root.parts)
    names = [
        f"{up}{outside}/secret".replace("//", "/"),
        f"{outside}/secret",
        f"/{outside}/secret",
        f"{RUN}/../../../{up}{outside}/secret",
        "link",
        "parent/secret",
        "loop",
        "loop/x",
        "run.json.link",
        f"{RUN}/run.json",
        f"{RUN}\0",
        f"{RUN}\\..\\..",
        "..",
        ".",
        "/",
        "~",
        "~root",
        "a" * 300,
        "a/" * 1500,
        "\u2024\u2024/\u2024\u2024",
        "\ud800",
        "%",
        "file:///etc/passwd",
        "CON",
        "x\nSet-Cookie: a=b",
    ]

    guard = Guard("127.0.0.1")
    token = f"token={guard.page_token}"

    async def look(client: TestClient[Any, Any]) -> None:
        for method, path in all_routes():
            if "{run" not in path:
                continue
            body, headers = (None, None) if method == "GET" else (token, FORM)
            for name in names:
                escaped = "".join(f"%{byte:02x}" for byte in name.encode(errors="surrogatepass"))
                spellings = {escaped, escaped.replace("%2f", "/"), escaped.replace("%", "%25")}
                for spelling in spellings:
                    url = URL(str(client.make_url("/")) + address_of(path, run=spelling)[1:], encoded=True)
                    request = client.session.request(method, url, data=body, headers=headers, allow_redirects=False)
                    async with request as response:
                        assert response.status in (400, 404), (path, name)
                        source = await response.text()
                        check(source, f"{path} {name!r}")
                        assert "secret" not in Page(source).text.replace(name, "").replace(str(outside), "")

    visit(root, look, guard)


def test_only_our_own_files_are_static(root: Path) -> None:
    async def look(client: TestClient[Any, Any]) -> None:
        for name in (
            "../server.py",
            "..%2fserver.py",
            "%2e%2e%2fguard.py",
            "",
            "assay.css/",
            "assay.css%00",
            ".",
        ):
            url = URL(f"{client.make_url('/static/')}{name}", encoded=True)
            async with client.session.get(url) as response:
                assert response.status == 404, name
        assert (await client.get("/static/assay.css")).status == 200

    visit(root, look)


# Texts in addresses and headers


def test_hostile_texts_in_addresses_become_neither_markup_nor_headers(root: Path) -> None:
    guard = Guard("127.0.0.1", needs_secret=True)

    async def look(client: TestClient[Any, Any]) -> None:
        moved = await client.get("/", params={"token": guard.secret or ""}, allow_redirects=False)
        client.session.cookie_jar.update_cookies(moved.cookies, moved.url)
        for number, text in enumerate(STRINGS):
            broken = f"{text}\r\nSet-Cookie: stolen=1"
            for path in ("/nowhere/", "/static/", "/run/", "/case/0/", "/raw/0/", "/search/"):
                response = await client.get(URL(path) / text.replace("/", "\u2215"))
                assert response.status == 404, (path, text)
                check(await response.text(), f"{path}{text}")
            if number % 5 == 0:
                for _, route in all_routes("GET"):
                    response = await client.get(address_of(route, run=RUN), params={text: text, "page": text})
                    if response.content_type == "text/html":
                        check(await response.text(), f"{route}?{text}")
                    response.close()
            # The redirect that moves the token into a cookie repeats the rest of the address.
            query = {"token": guard.secret or "", "q": broken}
            response = await client.get("/", params=query, allow_redirects=False)
            assert response.status == 303
            assert "stolen" not in response.cookies
            assert URL(response.headers["Location"]).query["q"] == broken
            assert str(guard.secret) not in response.headers["Location"]

    visit(root, look, guard)


def test_headers_of_a_request_do_not_come_back(root: Path) -> None:
    names = (
        "User-Agent",
        "Referer",
        "Accept-Language",
        "Assay-Fragment",
        "X-Forwarded-Host",
        "Cookie",
        "Range",
    )

    async def look(client: TestClient[Any, Any]) -> None:
        for text in ("<script>alert(1)</script>", '"><img src=x>', "\u202e<b>"):
            headers = dict.fromkeys(names, text)
            for path in ("/", f"/run/{RUN}", f"/case/0/{RUN}", "/nowhere"):
                response = await client.get(path, headers=headers)
                assert response.status in (200, 404)
                source = await response.text()
                assert text not in source
                assert not any(text in value for value in response.headers.values())
                check(source, path)

    visit(root, look)


def test_requests_of_any_size_and_form_end_with_an_answer(root: Path) -> None:
    """Long addresses, many and large headers, and bytes that are no HTTP."""

    async def look(client: TestClient[Any, Any]) -> None:
        for path, headers in (
            ("/?q=" + "x" * 100_000, {}),
            ("/" + "x" * 100_000, {}),
            ("/", {"X-Large": "x" * 100_000}),
            ("/", {f"X-{number}": "x" for number in range(2000)}),
            ("/?" + "&".join(f"run={number}" for number in range(1500)), {}),
        ):
            with suppress(ClientError):  # the server may close the connection
                assert (await client.get(path, headers=headers)).status in (200, 400, 414, 431)
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"\x16\x03\x01\x00\xa5\x01 no HTTP\r\n\r\n")
        assert b"400" in await reader.read(100)
        writer.close()
        assert (await client.get("/")).status == 200

    visit(root, look)


# Tokens and cookies


def test_two_servers_know_nothing_of_each_other(root: Path) -> None:
    """Tokens and cookies of one are worth nothing at the other, and both show the same run."""
    guards = Guard("127.0.0.1", needs_secret=True), Guard("127.0.0.1", needs_secret=True)
    assert guards[0].page_token != guards[1].page_token

    async def look() -> None:
        async with view_of(root, guards[0]) as first, view_of(root, guards[1]) as second:
            moved = await first.get("/", params={"token": guards[0].secret or ""}, allow_redirects=False)
            (cookie,) = moved.cookies.values()
            assert cookie["httponly"]
            assert cookie["samesite"] == "Strict"
            assert not cookie["domain"]
            header = {"Cookie": f"{cookie.key}={cookie.value}"}
            assert (await first.get("/", headers=header)).status == 200
            assert (await second.get("/", headers=header)).status == 403
            stolen = {"Cookie": f"assay_view_{second.port}={cookie.value}"}
            assert (await second.get("/", headers=stolen)).status == 403
            assert (await second.get("/", params={"token": guards[0].secret or ""})).status == 403
            other = {"Cookie": f"assay_view_{second.port}={guards[1].secret}"}
            pages = await asyncio.gather(
                *(first.get(f"/run/{RUN}", headers=header) for _ in range(5)),
                *(second.get(f"/run/{RUN}", headers=other) for _ in range(5)),
            )
            assert {page.status for page in pages} == {200}
            token = {"token": guards[0].page_token}
            assert (await second.post("/", data=token, headers=other)).status == 403

    asyncio.run(look())


def test_the_secret_stands_in_no_page_and_no_header(root: Path) -> None:
    guard = Guard("0.0.0.0")
    secret = guard.secret or ""

    async def look(client: TestClient[Any, Any]) -> None:
        header = {"Cookie": f"assay_view_{client.port}={secret}"}
        for _, path in all_routes("GET"):
            if path == "/live":
                continue  # a stream without an end
            response = await client.get(address_of(path, run=RUN), headers=header)
            assert secret not in await response.text()
            assert not any(secret in value for value in response.headers.values())

    visit(root, look, guard)


def test_looking_at_a_run_changes_none_of_its_files(root: Path) -> None:
    """The index beside the journal is a file of our own; everything else stays as it is."""
    folder = root / RUN

    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".bin"}

    before = state()

    async def look(client: TestClient[Any, Any]) -> None:
        for _, path in all_routes("GET"):
            if path != "/live":
                await (await client.get(address_of(path, run=RUN))).read()

    visit(root, look)
    assert state() == before


# Root may write everywhere, unless it gives up the right to.
GIVEN_UP = "-dac_override,-dac_read_search"
AS_ORDINARY_USER = ("setpriv", f"--bounding-set={GIVEN_UP}", f"--inh-caps={GIVEN_UP}") if os.getuid() == 0 else ()


def test_a_run_folder_that_cannot_be_written_is_shown_without_buttons(root: Path) -> None:
    def changing_forms() -> list[dict[str, str]]:
        with urllib.request.urlopen(f"{view.address}/run/{RUN}") as response:
            page = Page(response.read().decode())
        return [form for tag, form in page.elements if tag == "form" and form.get("method") == "post"]

    with serving(root, *AS_ORDINARY_USER) as view:
        (root / RUN).chmod(0o555)
        assert not changing_forms()
        (root / RUN).chmod(0o755)
        assert changing_forms()


def test_a_suite_that_is_a_file_does_not_run_because_somebody_looks_at_its_run(tmp_path: Path) -> None:
    marker, file = tmp_path / "it-ran", tmp_path / "suite.py"
    file.write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n")
    sentences: list[str] = []
    assert type(api.suite_pages(f"{file}:Quiz", sentences.append)) is SuitePages
    assert not marker.exists()
    assert f"add --code {file}" in sentences[0]
    with only_named_code([f"{file}:Quiz"]):
        api.suite_pages(f"{file}:Quiz")
    assert marker.exists()
