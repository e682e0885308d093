"""Provider `openai-completions/NAME`: text completion behind an OpenAI-compatible endpoint.

The prompt is sent unchanged, without a chat template. Likelihoods come from the same path: the endpoint
echoes the prompt with the log-probability of each token. See `likelihood/endpoint.py`.
"""

from __future__ import annotations

from assay.core.envfile import COMMON_KEY
from assay.core.roles import EMBEDDINGS, FORWARD, LIKELIHOOD, TEXT, About, Connection
from assay.core.types import Request, Response
from assay.models.http.adapt import AdaptedEndpoint
from assay.models.http.client import HttpEndpoint
from assay.models.http.openai_format import read_completion, request_headers, request_params
from assay.models.http.sdk_requests import forward
from assay.models.http.vendor import OPENAI, key_headers, vendor_url
from assay.models.likelihood.endpoint import CompletionsArgs, EndpointLikelihood, RemoteTokenizer
from assay.models.likelihood.harness_prompts import HarnessPrompts
from assay.usercode.model_args import read_args

ABOUT = About(
    summary="text completion behind an OpenAI-compatible endpoint (vLLM, llama.cpp, ...)",
    needs="--base-url or OPENAI_BASE_URL (default: OpenAI); OPENAI_API_KEY if the endpoint requires a key",
    can=frozenset({TEXT, LIKELIHOOD, EMBEDDINGS}),
    example="openai-completions/Qwen/Qwen2.5-0.5B",
    keys=(COMMON_KEY,),
    args=frozenset(CompletionsArgs.__struct_fields__),
)


class CompletionsModel:
    """One completion model at one endpoint, with the server's tokenizer if it has one."""

    can = ABOUT.can | {FORWARD}

    def __init__(self, connection: Connection) -> None:
        self.endpoint = vendor_url(connection, OPENAI)
        self._name = connection.name
        headers = key_headers(connection, OPENAI)
        self._http = HttpEndpoint(self.endpoint, headers, connection.timeout, connection.network)
        self._adapted = AdaptedEndpoint(self._http)
        # vLLM serves /tokenize and /tokenizer_info at its root, not below /v1.
        self._server_root = HttpEndpoint(
            self.endpoint.removesuffix("/v1"), headers, connection.timeout, connection.network
        )
        args = read_args(connection.args, CompletionsArgs)
        tokenizer = RemoteTokenizer(self._server_root, args)
        self._likelihood = EndpointLikelihood(self._http, tokenizer, self._name, args)
        self._prompts = HarnessPrompts(tokenizer, args)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one completion, or measure one likelihood. The caller retries, so this method does not."""
        if request.sdk is not None:
            return await forward(self._adapted, self._name, request, request.sdk, seed)
        if request.continuation is not None:
            return await self._likelihood.measure(request, seed)
        # The parameters come last: a seed of the task or prompt overrides the seed of the run.
        body = {"model": self._name, "prompt": request.prompt, "seed": seed, **request_params(request.params)}
        notes: tuple[str, ...] = ()
        if self._prompts.may_change(request):
            fields, notes = await self._prompts.fields(request)
            body |= fields
        headers = request_headers(request.params.get("headers"))
        reply, adapted = await self._adapted.post("/completions", body, headers)
        return read_completion(reply, self.endpoint, (*adapted, *notes))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()
        await self._server_root.close()


def connect(connection: Connection) -> CompletionsModel:
    """Return the model `openai-completions/NAME`. Opens no connection yet."""
    return CompletionsModel(connection)
