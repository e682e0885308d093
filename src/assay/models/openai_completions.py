"""Text completion behind an OpenAI-compatible endpoint. The prompt is sent as it is.

Likelihoods come from the same path, with the prompt echoed; see `likelihood/endpoint.py`.
"""

from __future__ import annotations

import msgspec

from assay.core.connect import FORWARD, LIKELIHOOD, TEXT, About, Connection
from assay.core.types import Request, Response
from assay.models.calling.foreign_sdk import forward, is_sdk_request
from assay.models.calling.http_client import HttpEndpoint, decode_json
from assay.models.calling.openai_format import openai_base_url, openai_key, read_completion, request_params
from assay.models.likelihood.endpoint import EndpointLikelihood

ABOUT = About(
    summary="text completion behind an OpenAI-compatible endpoint (vLLM, llama.cpp, ...)",
    needs="--base-url or OPENAI_BASE_URL; OPENAI_API_KEY where the endpoint wants a key",
    can=frozenset({TEXT, LIKELIHOOD}),
    example="openai-completions/Qwen/Qwen2.5-0.5B",
)
_encode = msgspec.json.Encoder().encode


class CompletionsModel:
    """The `/completions` of one endpoint, and the tokenizer that it may offer beside /v1."""

    can = ABOUT.can | {FORWARD}

    def __init__(self, connection: Connection) -> None:
        self.endpoint = openai_base_url(connection)
        self._name = connection.name
        key = openai_key(connection)
        self._http = HttpEndpoint(self.endpoint, key, connection.timeout)
        self._beside = HttpEndpoint(self.endpoint.removesuffix("/v1"), key, connection.timeout)
        self._likelihood = EndpointLikelihood(self._http, self._beside, self._name, connection.args)

    async def send(self, request: Request, seed: int) -> Response:
        """Make one attempt at one completion or likelihood."""
        if is_sdk_request(request):
            return await forward(self._http, self._name, request, seed)
        if request.continuation is not None:
            return await self._likelihood.measure(request, seed)
        # A seed among the parameters wins over the run's.
        body = {"model": self._name, "prompt": request.prompt, "seed": seed, **request_params(request.params)}
        reply = await self._http.post("/completions", _encode(body))
        return read_completion(decode_json(reply, self.endpoint), self.endpoint)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()
        await self._beside.close()


def connect(connection: Connection) -> CompletionsModel:
    """Called by the registry."""
    return CompletionsModel(connection)
