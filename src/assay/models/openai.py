"""Provider `openai/NAME`: chat models behind an OpenAI-compatible endpoint.

Each request is a POST to `/chat/completions`. Requests of foreign SDKs, which arrive through the gateway, are
passed to the endpoint unchanged.
"""

from __future__ import annotations

from assay.core.connect import CHAT, FORWARD, LIKELIHOOD, About, Connection
from assay.core.envfile import COMMON_KEY
from assay.core.errors import ModelError
from assay.core.types import Failure, Request, Response
from assay.models.calling.adapt import AdaptedEndpoint
from assay.models.calling.foreign_sdk import forward, is_sdk_request
from assay.models.calling.http_client import HttpEndpoint, bearer
from assay.models.calling.openai_format import (
    openai_base_url,
    openai_key,
    read_chat,
    request_headers,
    request_params,
)

ABOUT = About(
    summary="chat models behind an OpenAI-compatible endpoint",
    needs="--base-url or OPENAI_BASE_URL (default: OpenAI); OPENAI_API_KEY if the endpoint requires a key",
    can=frozenset({CHAT}),
    example="openai/gpt-4o-mini",
    keys=(COMMON_KEY,),
)


class OpenAIModel:
    """One chat model at one endpoint."""

    can = ABOUT.can | {FORWARD}

    def __init__(self, connection: Connection) -> None:
        self.endpoint = openai_base_url(connection)
        self._name = connection.name
        self._http = HttpEndpoint(
            self.endpoint, bearer(openai_key(connection)), connection.timeout, connection.network
        )
        self._adapted = AdaptedEndpoint(self._http)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one chat completion. The caller retries, so this method does not."""
        if is_sdk_request(request):
            return await forward(self._adapted, self._name, request, seed)
        if request.continuation is not None:
            message = f"chat models cannot do {LIKELIHOOD}; use openai-completions/{self._name}"
            raise ModelError(Failure("rejected", message))
        messages = request.messages or [{"role": "user", "content": request.prompt}]
        # The parameters come last: a seed of the task or prompt overrides the seed of the run.
        body = {"model": self._name, "messages": messages, "seed": seed, **request_params(request.params)}
        headers = request_headers(request.params)
        reply, adapted = await self._adapted.post("/chat/completions", body, headers)
        return read_chat(reply, self.endpoint, adapted)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `openai/NAME`. Opens no connection yet."""
    return OpenAIModel(connection)
