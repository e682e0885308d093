"""Likelihoods from llama.cpp's server over HTTP, measured as `local/` measures them inside the process.

    client = LlamaServerLikelihood(connection)
    response = await client.send(request, seed)

llama.cpp's server has no `echo` as vLLM has. `models/likelihood/llama.py` forces the wanted tokens by a grammar and
tokenizes over HTTP already. Here its completions go over HTTP too.
"""

from __future__ import annotations

from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from assay.core.roles import Connection
from assay.core.threads import DaemonPool
from assay.core.types import Request, Response
from assay.models.http.errors import bad_reply
from assay.models.likelihood import spans
from assay.models.likelihood.llama import LlamaLikelihood, read_properties, tokenize_request
from assay.models.llama.server import AddChunk, StopFlag
from assay.models.servers.server import server_key

# The replies are read as llama.cpp writes them, without a check of each value. Those of another program raise these.
_OTHER_FORM = (
    *(msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError, OverflowError, StopIteration),
    RecursionError,
)


class LlamaServerLikelihood:
    """Measures likelihoods at one llama.cpp server. Requests block, so they are made in threads."""

    can: frozenset[str] = frozenset()

    def __init__(self, connection: Connection) -> None:
        assert connection.base_url
        self.endpoint = connection.base_url
        self._server = RemoteLlama(connection.base_url, connection.timeout)
        self._pool = DaemonPool(connection.concurrency, "assay-llama-server")
        self._stop = StopFlag()

    async def send(self, request: Request, seed: int) -> Response:
        """Return the likelihood of the request's continuation."""
        rolling = request.prompt is None
        prompt, continuation = spans.move_trailing_space(request.prompt or "", request.continuation or "")
        if not continuation:
            return spans.build_response([spans.EMPTY_TEXT], rolling=rolling)
        parts = await self._pool.run(partial(self._measure, prompt, continuation, rolling=rolling))
        return spans.build_response(parts, rolling=rolling, address=self.endpoint)

    async def close(self) -> None:
        """Let the threads stop before their next request."""
        self._stop.is_set = True

    def _measure(self, prompt: str, continuation: str, *, rolling: bool) -> list[spans.MeasuredSpan]:
        try:
            max_tokens = self._server.max_tokens()
            windows = tokenize_request(self._server, prompt, continuation, max_tokens, rolling=rolling)
            measure = LlamaLikelihood(self._server, self._stop, reuse_prompt=True).measure
            return [measure(window) for window in windows]
        except _OTHER_FORM as error:
            why = f"it is not in llama.cpp's form: {type(error).__name__}: {error}"
            raise bad_reply(self.endpoint, why) from error


class RemoteLlama:
    """A llama.cpp server in another process, with the interface of the one inside this process."""

    def __init__(self, base_url: str, timeout: float) -> None:
        self.key = server_key()
        self.address = urlsplit(base_url).netloc
        self._timeout = timeout
        self._max_tokens: int | None = None

    def max_tokens(self) -> int:
        """Return the context length of one slot. Asks the server once."""
        if self._max_tokens is None:
            self._max_tokens = int(read_properties(self)["default_generation_settings"]["n_ctx"])
        return self._max_tokens

    def complete(self, body: dict[str, Any], add_chunk: AddChunk) -> None:
        """Send a completion, and pass the whole reply, or the error, to `add_chunk` as one part of a stream."""
        connection = HTTPConnection(self.address, timeout=self._timeout)
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        whole = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        try:
            connection.request("POST", "/v1/completions", msgspec.json.encode(whole), headers)
            with connection.getresponse() as reply:
                content = reply.read()
            chunk = msgspec.json.decode(content)
        except (OSError, HTTPException, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            # A code of 500 or more makes the caller try again, after a restart if the server is dead.
            chunk = {"error": {"code": 503, "message": f"{type(error).__name__}: {error}"}}
        finally:
            connection.close()
        add_chunk(chunk)
