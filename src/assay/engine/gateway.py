"""The gateway: an OpenAI-compatible server on loopback, for evaluated code that uses its own SDK.

    gateway = Gateway({"main": facts})
    await gateway.start()
    endpoint = gateway.open_endpoint("main", asker)   # the SDK gets endpoint.url as its base URL
    endpoint.close()                                  # when the try of the case ends

Every request to the URL becomes a call of that try. It is logged before the SDK gets the reply, replayed when
the run continues, and limited and retried like every other call. A run may also have one shared endpoint, for
code that reads OPENAI_BASE_URL and does not accept a URL per case.

The file reads from the top down: Gateway (opens endpoints), CaseEndpoint (requests become calls),
GatewayServer (HTTP). `models/http/sdk_requests.py` translates requests and replies.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.errors import AssayError, ModelError, UsageError
from assay.core.protocols import Asker
from assay.core.roles import CHAT, EMBEDDINGS, FORWARD
from assay.core.types import Failure, Request, Response
from assay.engine.asker import ModelFacts
from assay.models.http.sdk_requests import (
    CHAT_PATH,
    EMBEDDINGS_PATH,
    SdkReply,
    UnsupportedRequest,
    build_chat_reply,
    build_error,
    build_failure,
    build_model_list,
    build_reply,
    read_chat_request,
    read_sdk_request,
)

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK = "127.0.0.1"
# Larger than any prompt, but small enough to read the body into memory as a whole.
MAX_BODY_BYTES = 64 << 20
# Time that requests in flight get to end when the run ends. Closed endpoints have cancelled their calls by then.
SHUTDOWN_SECONDS = 1.0
# /c/TOKEN/v1 and the path below it. No part of the path may begin with a dot: the path is appended to the
# endpoint's base URL, and `..` would leave it.
_PATH = re.compile(r"/c/([\w-]+)/v1((?:/[\w:-][\w.:-]*)*)", re.ASCII)
# SDKs refuse to start without a key. The gateway ignores it.
_PLACEHOLDER_KEY = "not-a-key"

ENDPOINT_CLOSED = build_error(
    410, "the try of the case that used this base URL has ended; get a new one from the context's base_url()"
)


class Gateway:
    """Opens endpoints for the models of a run. The first `start` opens the port; most runs never need it."""

    def __init__(self, models: Mapping[str, ModelFacts]) -> None:
        """`models` are those of the run, by role."""
        self._models = models
        self._endpoints: dict[str, CaseEndpoint] = {}  # by token, the random part of the URL
        self._shared_token = secrets.token_urlsafe(16)
        self._start_lock = asyncio.Lock()
        self._server: GatewayServer | None = None
        self._address = ""

    async def start(self) -> None:
        """Listen on a free port of loopback, unless the gateway does so already."""
        async with self._start_lock:
            if self._server is None:
                server = GatewayServer(self._endpoints.get)
                self._address = await server.start()
                self._server = server

    def open_endpoint(self, role: str, asker: Asker) -> CaseEndpoint:
        """Open an endpoint for one try of a case. Its URL contains a random token that no other code can guess."""
        token = secrets.token_urlsafe(16)
        return self._open(token, role, asker, on_close=partial(self._endpoints.pop, token, None))

    def open_shared_endpoint(self, role: str, asker: Asker) -> CaseEndpoint:
        """Let this asker answer at the shared URL until the returned endpoint is closed.

        After that, the previous endpoint answers again. So a try of a case can borrow the shared URL.
        """
        token = self._shared_token
        previous = self._endpoints.get(token)
        if previous is None:
            return self._open(token, role, asker, on_close=partial(self._endpoints.pop, token, None))
        return self._open(token, role, asker, on_close=partial(self._endpoints.__setitem__, token, previous))

    def _open(self, token: str, role: str, asker: Asker, on_close: Callable[[], object]) -> CaseEndpoint:
        url = f"{self._address}/c/{token}/v1"
        endpoint = CaseEndpoint(url, self._models[role], asker, on_close)
        self._endpoints[token] = endpoint
        return endpoint

    async def close(self) -> None:
        """Close all endpoints and stop listening."""
        # Not a loop over a copy: closing an endpoint of the shared URL may put the previous endpoint back.
        while self._endpoints:
            next(iter(self._endpoints.values())).close()
        if self._server is not None:
            await self._server.close()


class CaseEndpoint:
    """Turns the requests of an SDK into calls of one try of a case.

    `failure` is the failure of the last failed call. The code that uses the SDK may swallow the error, so the
    engine reads it here.
    """

    def __init__(self, url: str, model: ModelFacts, asker: Asker, on_close: Callable[[], object]) -> None:
        self.url = url
        self.failure: Failure | None = None
        self._model = model
        self._asker = asker
        self._on_close = on_close
        self._calls: set[asyncio.Future[Response]] = set()
        self._closed = False

    def list_models(self) -> SdkReply:
        """Answer GET /models with the one model of this endpoint."""
        return build_model_list(self._model.name.partition("/")[2])

    async def post(self, path: str, body: dict[str, Any]) -> SdkReply:
        """Answer a POST. Every failure becomes an error reply that the SDK can raise."""
        model = self._model
        name = model.name
        try:
            if FORWARD in model.can or (path == EMBEDDINGS_PATH and EMBEDDINGS in model.can):
                response = await self._ask(read_sdk_request(name, model.endpoint, path, body, model.sdk_params))
                return build_reply(response)
            if path != CHAT_PATH or CHAT not in model.can:
                return build_error(
                    501,
                    f"{name} has no OpenAI-compatible endpoint; the gateway offers {CHAT_PATH} for chat models "
                    f"only, not {path}",
                )
            request = read_chat_request(name, model.endpoint, body, model.sdk_params)
            return build_chat_reply(request, await self._ask(request), body)
        except EndpointClosed:
            return ENDPOINT_CLOSED
        except UnsupportedRequest as error:
            return build_error(501, str(error))
        except ModelError as error:
            # A rejected request is a mistake of the code under test, so it is not a failure of the endpoint.
            if error.failure.kind != "rejected":
                self.failure = error.failure
            return build_failure(error.failure)
        except AssayError as error:
            return build_error(503, str(error), "stopped")
        except Exception as error:  # noqa: BLE001 - a bug in a provider must fail this case, not the server
            return build_error(500, f"{type(error).__name__}: {error}")

    async def _ask(self, request: Request) -> Response:
        """Make a call. It continues and is logged even if the SDK disconnects, because it may be paid already."""
        if self._closed:
            raise EndpointClosed
        call = asyncio.ensure_future(self._asker.ask(request))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        await asyncio.wait([call])
        if call.cancelled():
            raise EndpointClosed
        return call.result()

    def close(self) -> None:
        """Stop answering and cancel the calls in flight. Called when the try ends."""
        self._closed = True
        self._on_close()
        for call in self._calls:
            call.cancel()


class EndpointClosed(Exception):
    """The try of the case ended before the SDK's request was answered."""


class GatewayServer:
    """HTTP server on a free port of loopback. Passes each request to the endpoint that `find(token)` returns."""

    def __init__(self, find: Callable[[str], CaseEndpoint | None]) -> None:
        # Imported here because importing aiohttp takes long and most runs need no gateway.
        from aiohttp import web

        self._find = find
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=SHUTDOWN_SECONDS)
        self._hosts: tuple[str, ...] = ()

    async def start(self) -> str:
        """Start to listen. Returns the address, such as http://127.0.0.1:34567."""
        from aiohttp import web

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
        from aiohttp import web

        reply = await self._answer(request)
        # The run's caller has retried already. OpenAI's SDKs obey this header and do not retry again.
        headers = None if reply.status == 200 else {"x-should-retry": "false"}
        return web.Response(
            status=reply.status,
            body=reply.body,
            content_type=reply.content_type,
            charset="utf-8",
            headers=headers,
        )

    async def _answer(self, request: web.BaseRequest) -> SdkReply:
        from aiohttp import web

        # A web page may reach loopback: through a foreign name that resolves to it (DNS rebinding), which
        # the Host header shows, or by fetch(), which sends an Origin.
        if request.headers.get("Host", "").lower() not in self._hosts:
            return build_error(403, "the Host header is not the address of this gateway")
        if "Origin" in request.headers:
            return build_error(403, "this gateway does not answer web pages (the request has an Origin header)")
        match = _PATH.fullmatch(request.rel_url.raw_path)
        if match is None:
            return build_error(404, "unknown path; get the base URL from the context's base_url()")
        endpoint = self._find(match[1])
        path = match[2]
        if endpoint is None:
            return ENDPOINT_CLOSED
        if request.method == "GET" and path == "/models":
            return endpoint.list_models()
        if request.method != "POST":
            return build_error(405, f"the gateway accepts POST, and GET for /models; not {request.method} {path}")
        if request.query_string:
            return build_error(400, "remove the query string: it may contain keys, and the gateway logs every request")

        try:
            raw_body = await _read_body(request)
        except web.RequestPayloadError as error:
            return build_error(400, f"the body is not in the encoding that its headers name: {error}")
        if raw_body is None:
            return build_error(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MB")
        try:
            body = msgspec.json.decode(raw_body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return build_error(400, f"the body is not JSON: {error}")
        if not isinstance(body, dict):
            return build_error(400, "the body is not a JSON object")
        return await endpoint.post(path, body)


async def _read_body(request: web.BaseRequest) -> bytes | None:
    """Return the body, or None if it is too large. Counts bytes, since Content-Length may be absent or wrong."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


@contextmanager
def sdk_environment(url: str) -> Iterator[None]:
    """Set OPENAI_BASE_URL to `url`, and OPENAI_API_KEY if it is not set. Restores both afterwards."""
    before = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")}
    os.environ["OPENAI_BASE_URL"] = url
    os.environ["OPENAI_API_KEY"] = before["OPENAI_API_KEY"] or _PLACEHOLDER_KEY
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
