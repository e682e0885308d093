"""The address of one try of a case, as foreign SDKs find it behind the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.connect import CHAT, FORWARD
from assay.core.errors import AssayError, ModelError
from assay.core.protocols import Asker, Upstream
from assay.core.types import Failure, Request, Response
from assay.models.calling.translate import Unsupported, translated, wrapped
from assay.models.calling.wire import CHAT_PATH, Answer, answered, failed, foreign_request, problem

GONE = problem(410, "this address belonged to a try of a case that has ended; ask the context for a new one")


class Closed(Exception):
    """The try ended while its SDK was still asking."""


class CaseEndpoint:
    """Turns what an SDK posts into asks of one try.

    It remembers what foreign code may swallow: the last failed call.
    """

    def __init__(self, url: str, upstream: Upstream, asker: Asker, forget: Callable[[], object]) -> None:
        self.url = url
        self.failure: Failure | None = None
        self._upstream = upstream
        self._asker = asker
        self._forget = forget
        self._running: set[asyncio.Future[Response]] = set()
        self._closed = False

    def models(self) -> Answer:
        """The list SDKs ask for: the run's one model."""
        name = self._upstream.name.partition("/")[2]
        model = {"id": name, "object": "model", "created": 0, "owned_by": "assay"}
        return Answer(200, msgspec.json.encode({"object": "list", "data": [model]}))

    async def post(self, path: str, body: dict[str, Any]) -> Answer:
        """One request of the SDK. Whatever happens, the SDK is told in a way it can raise."""
        try:
            return await self._post(path, body)
        except Closed:
            return GONE
        except Unsupported as error:
            return problem(501, str(error))
        except ModelError as error:
            # A request that is refused for what it says is the fault of the code that wrote it.
            self.failure = self.failure if error.failure.kind == "rejected" else error.failure
            return failed(error.failure)
        except AssayError as error:
            return problem(503, str(error), "stopped")
        except Exception as error:  # noqa: BLE001 - a provider's fault belongs to this case, not to the server
            return problem(500, f"{type(error).__name__}: {error}")

    async def _post(self, path: str, body: dict[str, Any]) -> Answer:
        name, model = self._upstream
        if FORWARD in model.can:
            return answered(await self._ask(foreign_request(name, model.endpoint, path, body)))
        if path != CHAT_PATH or CHAT not in model.can:
            raise Unsupported(
                f"{name} has no endpoint, so {CHAT_PATH} of a chat model is all there is; not {path}"
            )
        request = translated(name, model.endpoint, body)
        return wrapped(request, await self._ask(request), body)

    async def _ask(self, request: Request) -> Response:
        """Through the one place where money is spent. An SDK may hang up: the call goes on and is logged."""
        if self._closed:
            raise Closed
        call = asyncio.ensure_future(self._asker.ask(request))
        self._running.add(call)
        call.add_done_callback(self._running.discard)
        await asyncio.wait([call])
        if call.cancelled():
            raise Closed
        return call.result()

    def close(self) -> None:
        """The try has ended: nothing is answered any more, and nobody waits for what still runs."""
        self._closed = True
        self._forget()
        for call in self._running:
            call.cancel()
