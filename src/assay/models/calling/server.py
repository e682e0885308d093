"""The gateway's HTTP side: who may enter, which door is meant, and how large a body may be."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from aiohttp import web

from assay.core.errors import UsageError
from assay.models.calling.doors import GONE, CaseEndpoint
from assay.models.calling.wire import Answer, problem

LOOPBACK = "127.0.0.1"
MOST_BYTES = 64 << 20
_PATH = re.compile(r"/c/([\w-]+)/v1((?:/[\w:-][\w.:-]*)*)", re.ASCII)
"""A token and what is asked below it. No segment begins with a dot: none leads out of the base URL."""
_SHUTDOWN_SECONDS = 1.0


class Server:
    """Listens on a free port of loopback."""

    def __init__(self, find: Callable[[str], CaseEndpoint | None]) -> None:
        self._find = find
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None), shutdown_timeout=_SHUTDOWN_SECONDS
        )
        self._hosts: tuple[str, ...] = ()

    async def start(self) -> str:
        """Listen; gives the address."""
        try:
            await self._runner.setup()
            await web.TCPSite(self._runner, LOOPBACK, 0).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(f"the gateway for foreign SDKs cannot listen on {LOOPBACK}: {error}") from error
        port = self._runner.addresses[0][1]
        self._hosts = (f"{LOOPBACK}:{port}", f"localhost:{port}")
        return f"http://{LOOPBACK}:{port}"

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        status, body, content_type = self._refused(request) or await self._answer(request)
        # The call was retried as often as the user wants; SDKs that know this header do not start over.
        headers = None if status == 200 else {"x-should-retry": "false"}
        return web.Response(
            status=status, body=body, content_type=content_type, charset="utf-8", headers=headers
        )

    def _refused(self, request: web.BaseRequest) -> Answer | None:
        """Foreign names that lead here and other people's web pages get nothing, whatever they know."""
        if request.headers.get("Host", "").lower() not in self._hosts:
            return problem(403, "this gateway is reached by its own address only")
        if "Origin" in request.headers:
            return problem(403, "this gateway does not talk to web pages")
        return None

    async def _answer(self, request: web.BaseRequest) -> Answer:
        found = _PATH.fullmatch(request.rel_url.raw_path)
        if found is None:
            return problem(404, "there is nothing here; addresses come from the context's base_url()")
        door, path = self._find(found[1]), found[2]
        if door is None:
            return GONE
        if request.method == "GET" and path == "/models":
            return door.models()
        if request.method != "POST":
            return problem(405, f"the gateway takes POST, and GET of /models; not {request.method} {path}")
        if request.query_string:
            return problem(
                400, "the gateway forwards no query: it may hold keys, and the log keeps what is asked"
            )
        return await _posted(door, path, request)


async def _posted(door: CaseEndpoint, path: str, request: web.BaseRequest) -> Answer:
    raw = await _read(request)
    if raw is None:
        return problem(413, f"the body is larger than {MOST_BYTES >> 20} MB")
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return problem(400, f"the body is not JSON: {error}")
    if not isinstance(body, dict):
        return problem(400, "the body is not a JSON object")
    return await door.post(path, body)


async def _read(request: web.BaseRequest) -> bytes | None:
    """The body, or None where it is too large."""
    if (request.content_length or 0) > MOST_BYTES:
        return None
    raw = bytearray()
    async for chunk in request.content.iter_any():
        raw += chunk
        if len(raw) > MOST_BYTES:
            return None
    return bytes(raw)
