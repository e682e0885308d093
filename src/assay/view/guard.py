"""Which requests the server answers. It runs code and reads files of its user, so other websites must not reach it.

A browser sends requests to 127.0.0.1 for any website that asks it to. The guard refuses them:

- `Host` must be one of ours. Otherwise a website could give its own name our address (DNS rebinding). 421
- `Origin` and `Sec-Fetch-Site` must say that our own page asks, or the person who typed the address. 403
- Every method but GET and HEAD needs the token that only our pages have, in a form. 403
- On loopback, the user who runs the server, or root, must have opened the connection, as far as the system tells. 403
- Outside of loopback, and with `--token`, everything needs the secret of the printed address, later a cookie. 403

The headers of `HEADERS` go with every response. They forbid scripts and styles inside the page, anything from other
servers, and frames.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable
from hmac import compare_digest

from aiohttp import web

from assay.view.peers import PeerCheck

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers would then send forms of our own pages with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MAX_BODY = 1 << 20
"""Bytes of a form. Larger ones are refused with 413."""
TOKEN_FIELD = "token"  # noqa: S105 - the name of a field
_FORM = "application/x-www-form-urlencoded"
# A name, an address, or an IPv6 address in brackets; and the port.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\s]+)(?::\d{1,5})?")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard:
    """The checks of one server. `secret` is None if everybody on this machine may read the pages."""

    def __init__(self, host: str, *, needs_secret: bool = False) -> None:
        self.page_token = secrets.token_urlsafe(24)
        """Our pages have it in their forms. No other website can read it."""
        self.secret = secrets.token_urlsafe(24) if needs_secret or not is_loopback(host) else None
        self._peers = PeerCheck()
        self._hosts = {"localhost", "127.0.0.1", "[::1]"}
        self._any_address = host in ("0.0.0.0", "::")  # noqa: S104 - the host that the user passed
        self._hosts.add(socket.gethostname().lower() if self._any_address else _host_of(host))

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request, or pass it on."""
        # Not `request.host`: without the header, as in HTTP/1.0, that is a name of this machine.
        if not self._is_our_host(request.headers.get("Host", "")):
            raise web.HTTPMisdirectedRequest(text="This server does not answer to that host name.\n")
        if self.secret is None and not await self._peers.is_ours(request.transport):
            raise web.HTTPForbidden(
                text="Another user of this machine runs this server. With --token it lets others in.\n"
            )
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get("Origin", f"http://{request.host}")
        if site not in ("same-origin", "none") or origin != f"http://{request.host}":
            raise web.HTTPForbidden(text="Another website asked for this page. Type its address yourself.\n")
        if self.secret is not None and not self._knows_secret(request):
            raise web.HTTPForbidden(text="Open the whole address that `assay view` printed, with its token.\n")
        if self.secret is not None and TOKEN_FIELD in request.query:
            raise self._move_to_cookie(request)
        if request.method not in ("GET", "HEAD"):
            await self._refuse_foreign_form(request)
        return await handler(request)

    def _is_our_host(self, header: str) -> bool:
        match = _HOST.fullmatch(header.lower())
        if match is None:
            return False
        name = match[1]
        # A website cannot choose a bare address as its name, so an address is never a rebound name.
        return name in self._hosts or (self._any_address and _is_address(name.strip("[]")))

    def _knows_secret(self, request: web.Request) -> bool:
        assert self.secret is not None
        cookie = request.cookies.get(self._cookie_name(request), "")
        return any(
            compare_digest(given.encode(), self.secret.encode())
            for given in (cookie, request.query.get(TOKEN_FIELD, ""))
        )

    def _move_to_cookie(self, request: web.Request) -> web.HTTPSeeOther:
        """Return a redirect to the address without the token, so that nobody copies it from the address bar."""
        assert self.secret is not None
        query = [(name, value) for name, value in request.query.items() if name != TOKEN_FIELD]
        response = web.HTTPSeeOther(request.rel_url.with_query(query))
        response.set_cookie(self._cookie_name(request), self.secret, httponly=True, samesite="Strict")
        return response

    def _cookie_name(self, request: web.Request) -> str:
        # Browsers do not tell ports apart, and two views of one machine have different secrets.
        return f"assay_view_{request.url.port}"

    async def _refuse_foreign_form(self, request: web.Request) -> None:
        if request.content_type != _FORM:
            raise web.HTTPForbidden(text="The body of a request must be a form of our own page.\n")
        try:
            form = await request.post()  # raises 413 for more than MAX_BODY
        except (LookupError, ValueError, web.RequestPayloadError):
            message = "The form cannot be read: its charset, its compression or its bytes are wrong.\n"
            raise web.HTTPBadRequest(text=message) from None
        except ConnectionError:  # nobody reads this answer; without it aiohttp prints a traceback
            raise web.HTTPBadRequest(text="The form has not arrived whole.\n") from None
        given = form.get(TOKEN_FIELD, "")
        if not isinstance(given, str) or not compare_digest(given.encode(), self.page_token.encode()):
            raise web.HTTPForbidden(text="The page is from an earlier start of the server. Reload it.\n")


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every response: pages, files, streams and errors."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to the host."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _host_of(host: str) -> str:
    """Return a host as it stands in the `Host` header: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
