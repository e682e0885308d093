"""Likelihoods from an OpenAI-compatible `/completions`, measured as lm-evaluation-harness measures them.

The text is sent as a prompt with `echo`, and the endpoint returns the log-probability of each of its tokens. If
the server has a tokenizer (vLLM does), the text is sent as token ids, and the number of tokens tells where the
continuation begins. Otherwise it is sent as text, and `text_offset` in the reply tells where.

The file reads from the top down: EndpointLikelihood (one request), LikelihoodArgs (--model-args),
RemoteTokenizer (/tokenize), EchoedTokens (the reply).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from assay.core.errors import ModelError
from assay.core.types import Failure, Request, Response
from assay.models.http.client import HttpEndpoint
from assay.models.http.errors import bad_reply, decode_json
from assay.models.http.openai_format import first_choice, read_cost, read_usage
from assay.models.likelihood import spans
from assay.models.likelihood.spans import Ids, Likelihood, MeasuredSpan, TokenSpan
from assay.usercode.model_args import CountOrZero, Word

# Context length if --model-args has no max_length. The harness has the same default.
DEFAULT_MAX_LENGTH = 2048
# Number of texts whose tokens are cached. The choices of a question are scored one after the other and share its
# prompt, so a small cache is enough.
TOKENIZER_CACHE_SIZE = 256
PROBE_TEXT = "test"
"""The text with which a server is probed for a tokenizer. Its tokens are in the cache then."""

_encode = msgspec.json.Encoder().encode


class EndpointLikelihood:
    """Measures texts at one endpoint."""

    def __init__(self, http: HttpEndpoint, tokenizer: RemoteTokenizer, name: str, args: LikelihoodArgs) -> None:
        self._http = http
        self._name = name
        self._args = args
        self._tokenizer = tokenizer
        self._has_answered = False

    async def measure(self, request: Request, seed: int) -> Response:
        """Return the likelihood of the request's continuation. A text beyond the context takes several requests."""
        rolling = request.prompt is None
        prompt, continuation = spans.move_trailing_space(request.prompt or "", request.continuation or "")
        if not continuation:
            return spans.build_response([spans.EMPTY_TEXT], rolling=rolling)
        try:
            if await self._tokenizer.is_available():
                windows = await self._spans(prompt, continuation, rolling=rolling)
                parts = [await self._measure_span(span, request, seed) for span in windows]
            else:
                parts = [await self._measure_text(prompt, continuation, request, seed)]
        except ModelError as error:
            # "unsupported" halts the run. If the endpoint has returned likelihoods before, it does support them and
            # only this reply is odd.
            if self._has_answered and error.failure.kind == "unsupported":
                raise bad_reply(self._http.base_url, error.failure.message) from error
            raise
        self._has_answered = True
        return spans.build_response(parts, rolling=rolling, address=self._http.base_url)

    async def _spans(self, prompt: str, continuation: str, *, rolling: bool) -> Iterable[TokenSpan]:
        tokenize = self._tokenizer.tokenize
        max_tokens = self._args.max_tokens
        if rolling:
            ids = await tokenize(continuation)
            # The harness subtracts the generated token twice here. We do the same, for equal numbers.
            return spans.rolling_windows(ids, await self._tokenizer.prefix_token(), max_tokens - 1)
        if prompt:
            both = await tokenize(prompt + continuation)
            span = spans.span_after_prompt(await tokenize(prompt), both)
        else:
            ids = await tokenize(continuation)
            span = spans.span_after_prefix(ids, await self._tokenizer.prefix_token())
        return [spans.truncate_left(span, max_tokens)]

    async def _measure_span(self, span: TokenSpan, request: Request, seed: int) -> MeasuredSpan:
        """Measure a span of known tokens."""
        send_ids = self._args.tokenized_requests
        prompt = [span.ids] if send_ids else await self._tokenizer.detokenize(span.ids)
        reply = await self._post(prompt, request, seed)
        where = self._http.base_url
        echo = read_echo(first_choice(reply, where), where)
        # The echo has one token more than we sent: the generated one. A single logprob means that the endpoint
        # did not echo; likelihood_by_count reports that.
        if not send_ids and 1 < len(echo.logprobs) != len(span.ids) + 1:
            message = (
                f"{where} splits the text into {len(echo.logprobs) - 1} tokens, its tokenizer into "
                f"{len(span.ids)}. Remove tokenized_requests=False from --model-args to send token ids"
            )
            raise ModelError(Failure("rejected", message))
        likelihood = echo.likelihood_by_count(len(span.context), len(span.ids), where)
        return MeasuredSpan(likelihood, read_usage(reply), read_cost(reply))

    async def _measure_text(self, prompt: str, continuation: str, request: Request, seed: int) -> MeasuredSpan:
        """Measure a text at an endpoint without a tokenizer."""
        where = self._http.base_url
        prompt = prompt or self._args.eos_text or ""
        if not prompt:
            message = (
                f"{where} has no tokenizer, so the token before a text without a prompt is unknown. "
                "Name the model's end-of-text token: --model-args eos_string=TOKEN"
            )
            raise ModelError(Failure("unsupported", message))
        reply = await self._post(prompt + continuation, request, seed)
        echo = read_echo(first_choice(reply, where), where)
        likelihood = echo.likelihood_by_text(prompt, continuation, where)
        return MeasuredSpan(likelihood, read_usage(reply), read_cost(reply))

    async def _post(self, prompt: str | list[Ids], request: Request, seed: int) -> Any:
        # max_tokens is 1 because endpoints refuse 0. The generated token is ignored.
        # A seed of the request overrides that of the run.
        seed = request.params.get("seed", seed)
        fixed = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": seed, "echo": True}
        body = {"model": self._name, "prompt": prompt, **request.params, **fixed}
        where = self._http.base_url
        try:
            return decode_json(await self._http.post("/completions", _encode(body)), where)
        except ModelError as error:
            message = error.failure.message.lower()
            if error.failure.kind == "rejected" and ("echo" in message or "logprobs" in message):
                raise echo_unsupported(where, f"it answered: {error.failure.message}") from error
            raise


class LikelihoodArgs(Struct, frozen=True, forbid_unknown_fields=True):
    """The harness's --model-args that concern likelihoods."""

    tokenizer_backend: Literal["auto", "remote", "huggingface", "tiktoken", "none"] | None = "auto"
    """None sends text. In the harness, huggingface and tiktoken load a tokenizer into its process; here the tokenizer
    of the server takes their place."""
    custom_prefix_token_id: CountOrZero | None = None
    max_length: Annotated[int, Meta(ge=3, description="a whole number of at least 3")] | None = None
    """The context. None means DEFAULT_MAX_LENGTH."""
    tokenized_requests: bool = True
    """Send token ids instead of text."""
    add_bos_token: bool = False
    eos_string: Word | None = None

    @property
    def max_tokens(self) -> int:
        """Tokens of a prompt: one less than the context, since the endpoint generates a token too."""
        return (self.max_length or DEFAULT_MAX_LENGTH) - 1

    @property
    def has_tokenizer(self) -> bool | None:
        """Whether the user says that the server has a tokenizer. None if the server is to be asked."""
        if self.tokenizer_backend in (None, "none"):
            return False
        return True if self.tokenizer_backend == "remote" else None

    @property
    def eos_text(self) -> str | None:
        """The text of the end-of-text token, if the user names it."""
        return str(self.eos_string) if self.eos_string else None


class CompletionsArgs(LikelihoodArgs, frozen=True, forbid_unknown_fields=True):
    """--model-args of `openai-completions/NAME`. `harness_prompts.py` describes the further ones."""

    cut_prompts: bool = False
    lm_eval_requests: bool = False
    stop_at_eos: bool = True


class RemoteTokenizer:
    """The tokenizer of a server: /tokenize, /detokenize and /tokenizer_info of vLLM, which it has beside /v1.

    Recent texts are cached, and concurrent calls for the same text share one request.
    """

    def __init__(self, http: HttpEndpoint, args: LikelihoodArgs) -> None:
        self._http = http
        self._args = args
        self._info: dict[str, Any] = {}
        self._cache: dict[str, asyncio.Task[Ids]] = {}
        # None until the server was probed.
        self._is_available: bool | None = False if args.has_tokenizer is False else None
        self._probe_lock = asyncio.Lock()

    async def is_available(self) -> bool:
        """Return whether the server has a tokenizer. Probes it once, before the first text."""
        async with self._probe_lock:
            if self._is_available is None:
                is_available = await self.probe()
                if self._args.has_tokenizer and not is_available:
                    message = (
                        f"the server of {self._http.base_url} has no tokenizer (/tokenize). "
                        "Remove tokenizer_backend=remote from --model-args"
                    )
                    raise ModelError(Failure("unsupported", message))
                self._is_available = is_available
            return self._is_available

    @property
    def eos_text(self) -> str | None:
        """The text of the end-of-text token: `eos_string`, else that of /tokenizer_info. None if neither has one."""
        text = self._args.eos_text or self._info.get("eos_token")
        return text if isinstance(text, str) and text else None

    async def probe(self) -> bool:
        """Return whether the server tokenizes texts. Also reads its /tokenizer_info, if it has one."""
        try:
            info = decode_json(await self._http.get("/tokenizer_info"), self._http.base_url)
        except ModelError as error:
            _raise_if_endpoint_failed(error)
        else:
            self._info = info if isinstance(info, dict) else {}
        try:
            return bool(await self.tokenize(PROBE_TEXT))
        except ModelError as error:
            _raise_if_endpoint_failed(error)
            return False

    async def tokenize(self, text: str) -> Ids:
        """Return the token ids of a text."""
        task = self._cache.pop(text, None)
        failed = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        if task is None or failed:
            task = asyncio.ensure_future(self._tokenize(text))
            task.add_done_callback(_ignore_exception)
        # Inserted again at the end, so that the first key is the least recently used text.
        self._cache[text] = task
        while len(self._cache) > TOKENIZER_CACHE_SIZE:
            del self._cache[next(iter(self._cache))]
        # The shield keeps the request alive for the other callers when one of them is cancelled.
        return await asyncio.shield(task)

    async def _tokenize(self, text: str) -> Ids:
        body = {"prompt": text, "add_special_tokens": self._args.add_bos_token}
        where = self._http.base_url
        reply = decode_json(await self._http.post("/tokenize", _encode(body)), where)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise bad_reply(where, "/tokenize returned no list of token ids")
        # llama.cpp's /tokenize expects the text in another field, so it returns an empty list.
        if not tokens and text:
            raise bad_reply(where, "/tokenize returned no tokens for a text")
        return tokens

    async def detokenize(self, ids: Ids) -> str:
        """Return the text of tokens, for endpoints that accept no token ids."""
        where = self._http.base_url
        reply = decode_json(await self._http.post("/detokenize", _encode({"tokens": ids})), where)
        text = reply.get("prompt") if isinstance(reply, dict) else None
        if not isinstance(text, str):
            raise bad_reply(where, "/detokenize returned no text")
        return text

    async def prefix_token(self) -> int:
        """Return the token that precedes a text without a prompt: custom_prefix_token_id, else BOS, else EOS."""
        if self._args.custom_prefix_token_id is not None:
            return self._args.custom_prefix_token_id
        bos = await self._special_token("bos_token")
        eos = await self._special_token("eos_token")
        # `or`, not a test for None: a BOS token of id 0 gives way to EOS, as in the harness.
        prefix = bos or eos
        if prefix is not None:
            return prefix
        if self._args.eos_text:
            return (await self.tokenize(self._args.eos_text))[0]
        message = (
            f"{self._http.base_url} does not list its special tokens (/tokenizer_info), so the token before "
            "a text without a prompt is unknown. Name it: --model-args custom_prefix_token_id=ID"
        )
        raise ModelError(Failure("unsupported", message))

    async def _special_token(self, name: str) -> int | None:
        text = self._info.get(name)
        if isinstance(text, str) and text:
            return (await self.tokenize(text))[0]
        return None


def _raise_if_endpoint_failed(error: ModelError) -> None:
    """Raise the error if the endpoint is down or busy. Other errors (404, odd replies) mean "no tokenizer"."""
    if error.retry and error.failure.kind != "bad_reply":
        raise error


def _ignore_exception(task: asyncio.Task[Ids]) -> None:
    """Read the exception, so that asyncio does not log it when all callers were cancelled."""
    if not task.cancelled():
        task.exception()


class EchoedTokens(NamedTuple):
    """The `logprobs` of a reply: one entry for each token of the prompt, and one for the generated token.

    `top_logprobs` maps the most likely tokens at each position to their log-probabilities. `offsets` are the
    positions of the tokens in `text`; the list is empty if the endpoint sent no usable one.
    """

    logprobs: list[Any]
    top_logprobs: list[Any]
    offsets: list[Any]
    text: str

    def likelihood_by_count(self, start: int, stop: int, where: str) -> Likelihood:
        """Return the likelihood of the tokens from `start` on. The prompt has `stop` tokens."""
        if len(self.logprobs) < stop:
            count = len(self.logprobs)
            raise echo_unsupported(where, f"it sent {count} logprobs for a prompt of {stop} tokens")
        return self._likelihood(start, stop, where)

    def likelihood_by_text(self, prompt: str, continuation: str, where: str) -> Likelihood:
        """Return the likelihood of the tokens whose offset lies in the continuation.

        A token that begins in the prompt and ends in the continuation is scored too.
        """
        text = prompt + continuation
        if not self.text.startswith(text):
            raise echo_unsupported(where, "it does not echo the prompt")
        offsets = self.offsets
        are_numbers = bool(offsets) and all(type(offset) is int for offset in offsets)
        ascend = are_numbers and offsets[0] == 0 and offsets == sorted(offsets)
        # The last offset is that of the generated token. This check fails for endpoints that count bytes instead
        # of characters.
        if not ascend or offsets[-1] != len(text):
            raise echo_unsupported(
                where, "it has no tokenizer (/tokenize) and its text_offset does not say where tokens begin"
            )
        start = bisect_left(offsets, len(prompt))
        if offsets[start] > len(prompt):
            # A character may consist of several tokens with the same offset. Score all of them.
            start = bisect_left(offsets, offsets[start - 1])
        return self._likelihood(start, len(offsets) - 1, where)

    def _likelihood(self, start: int, stop: int, where: str) -> Likelihood:
        logprobs = self.logprobs[start:stop]
        top_logprobs = self.top_logprobs[start:stop]
        if not all(isinstance(logprob, (int, float)) for logprob in logprobs):
            raise bad_reply(where, "a token of the continuation has no logprob")
        if not all(isinstance(top, dict) and top for top in top_logprobs):
            raise bad_reply(where, "a token of the continuation has no top_logprobs")
        greedy = all(logprob == max(top.values()) for logprob, top in zip(logprobs, top_logprobs, strict=True))
        return Likelihood(spans.sum_in_order(logprobs), greedy)


def read_echo(choice: dict[str, Any], where: str) -> EchoedTokens:
    """Read the `logprobs` of a choice, in the form of OpenAI's old completions API."""
    fields = choice.get("logprobs")
    logprobs = fields.get("token_logprobs") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(logprobs, list):
        raise echo_unsupported(where, "its reply has no token_logprobs")
    top_logprobs = fields.get("top_logprobs")
    if not isinstance(top_logprobs, list) or len(top_logprobs) != len(logprobs):
        raise echo_unsupported(where, "its reply has no top_logprobs for each token")
    offsets = fields.get("text_offset")
    if not isinstance(offsets, list) or len(offsets) != len(logprobs):
        offsets = []
    return EchoedTokens(logprobs, top_logprobs, offsets, str(choice.get("text") or ""))


def echo_unsupported(where: str, why: str) -> ModelError:
    """Build the error for an endpoint that cannot return likelihoods. The kind "unsupported" halts the run."""
    return ModelError(
        Failure(
            "unsupported",
            f"{where} cannot return logprobs of the prompt, which loglikelihood needs: {why}. Use an endpoint that "
            "supports `echo` with `logprobs`, such as vLLM, or a GGUF file as local/PATH.gguf",
        )
    )
