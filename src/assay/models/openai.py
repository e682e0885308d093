"""Provider `openai/NAME`: chat models behind an OpenAI-compatible endpoint.

Each request is a POST to `/chat/completions`. Requests of foreign SDKs, which arrive through the gateway, are
passed to the endpoint in their own form.

A vendor with an endpoint of this kind is a file of a few lines: see `deepseek.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from assay.core.envfile import COMMON_KEY
from assay.core.errors import ModelError
from assay.core.roles import CHAT, EMBEDDINGS, FORWARD, LIKELIHOOD, About, Connection
from assay.core.types import Failure, Request, Response, SdkRequest, Usage
from assay.models.http.adapt import AdaptedEndpoint
from assay.models.http.client import HttpEndpoint
from assay.models.http.errors import decode_json
from assay.models.http.openai_format import read_chat, read_plain_chat, request_headers, request_params
from assay.models.http.sdk_requests import CHAT_PATH, EMBEDDINGS_PATH, forward
from assay.models.http.vendor import OPENAI, Vendor, key_headers, vendor_url

ABOUT = About(
    summary="chat models behind an OpenAI-compatible endpoint",
    needs="--base-url or OPENAI_BASE_URL (default: OpenAI); OPENAI_API_KEY if the endpoint requires a key",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="openai/gpt-4o-mini",
    keys=(COMMON_KEY,),
)


class OpenAIModel:
    """One chat model at one endpoint.

    `url` and `headers` replace the vendor's usual address and its `Authorization`. `query` is added to every path.
    It is part of the endpoint, because another version of an API may reply differently.
    `embedding_batch` is the largest number of texts that the vendor embeds at once; 0 means no limit of its own.
    """

    def __init__(
        self,
        connection: Connection,
        vendor: Vendor = OPENAI,
        about: About = ABOUT,
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        query: str = "",
        embedding_batch: int = 0,
    ) -> None:
        self.can = about.can | {FORWARD}
        url = url or vendor_url(connection, vendor)
        self.endpoint = url + query
        self._name = connection.name
        self._key = vendor.key_variables
        self._chat_path = CHAT_PATH + query
        self._query = query
        self._embedding_batch = embedding_batch
        if headers is None:
            headers = key_headers(connection, vendor)
        self._http = HttpEndpoint(url, headers, connection.timeout, connection.network)
        self._adapted = AdaptedEndpoint(self._http, key=self._key)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one chat completion. The caller retries, so this method does not."""
        if request.sdk is not None:
            return await self._forward(request, request.sdk, seed)
        if request.continuation is not None:
            message = f"chat models cannot do {LIKELIHOOD}; use openai-completions/{self._name}"
            raise ModelError(Failure("rejected", message))
        messages = request.messages or [{"role": "user", "content": request.prompt}]
        # The parameters come last: a seed of the task or prompt overrides the seed of the run.
        body = {"model": self._name, "messages": messages, "seed": seed, **request_params(request.params)}
        headers = request_headers(request.params.get("headers"))
        # `send` and not `post`: every coroutine between a call and its socket costs a run of many calls.
        response, adapted = await self._adapted.send(self._chat_path, body, headers)
        if response.status == 200 and (reply := read_plain_chat(response.body, self.endpoint, adapted)):
            return reply
        return read_chat(decode_json(response, self._http.base_url, self._key), self.endpoint, adapted)

    async def _forward(self, request: Request, sdk: SdkRequest, seed: int) -> Response:
        """Pass the request of an SDK on. More texts to embed than the vendor takes at once become several requests."""
        texts = sdk.body.get("input")
        size = self._embedding_batch
        if sdk.path != EMBEDDINGS_PATH or not isinstance(texts, list) or not 0 < size < len(texts):
            return await forward(self._adapted, self._name, request, sdk, seed, self._query)
        items: list[dict[str, object]] = []
        tokens = 0
        for start in range(0, len(texts), size):
            batch = replace(sdk, body={**sdk.body, "input": texts[start : start + size]})
            part = await forward(self._adapted, self._name, request, batch, seed, self._query)
            vectors = part.data.get("vectors", {}).get("data", [])
            items += [{**item, "index": start + item.get("index", 0)} for item in vectors]
            tokens += part.usage.input if part.usage else 0
        reply = {"object": "list", "data": items, "model": self._name, "usage": {"prompt_tokens": tokens}}
        return Response("", usage=Usage(tokens), data={"vectors": reply}, address=self.endpoint)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def connect(connection: Connection) -> OpenAIModel:
    """Return the model `openai/NAME`. Opens no connection yet."""
    return OpenAIModel(connection)
