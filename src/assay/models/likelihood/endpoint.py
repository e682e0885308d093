"""Likelihoods from an endpoint of text completions, measured as the harness measures them.

Where the endpoint offers its tokenizer, prompts go out as token ids and the tokens are counted.
Where it does not, the text goes out as it is and `text_offset` tells where the continuation begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from assay.core.errors import ModelError
from assay.core.types import Failure, Request, Response, Usage
from assay.models.calling.http_client import HttpEndpoint, bad_reply, decode_json
from assay.models.calling.openai_format import first_choice, read_usage
from assay.models.likelihood import arguments, spans
from assay.models.likelihood.echo import Echo, by_count, by_text, echo_of, no_echo
from assay.models.likelihood.remote import RemoteTokenizer
from assay.models.likelihood.spans import Part, Span

_encode = msgspec.json.Encoder().encode


class EndpointLikelihood:
    """One endpoint's `/completions`, and the tokenizer beside it."""

    def __init__(self, http: HttpEndpoint, beside: HttpEndpoint, name: str, args: dict[str, Any]) -> None:
        self._http = http
        self._name = name
        self._arguments = arguments.read(args)
        self._tokenizer = RemoteTokenizer(beside, self._arguments)
        self._counts: bool | None = self._arguments.remote if self._arguments.remote is False else None
        self._probing = asyncio.Lock()
        self._proven = False

    async def answer(self, request: Request, seed: int) -> Response:
        """One likelihood; a long text takes several posts."""
        try:
            response = await self._answer(request, seed)
        except ModelError as error:
            if self._proven and error.failure.kind == "unsupported":
                raise bad_reply(self._http.base_url, error.failure.message) from error
            raise
        self._proven = True
        return msgspec.structs.replace(response, address=self._http.base_url)

    async def _answer(self, request: Request, seed: int) -> Response:
        rolling, continuation = request.prompt is None, request.continuation or ""
        prompt, continuation = spans.moved(request.prompt or "", continuation)
        if not continuation:
            return spans.answer([(spans.CERTAIN, None)], rolling=rolling)
        if await self._counting():
            found = await self._spans(prompt, continuation, rolling=rolling)
            parts = [await self._counted(span, request, seed) for span in found]
        else:
            parts = [await self._cut(prompt, continuation, request, seed)]
        return spans.answer(parts, rolling=rolling)

    async def _counting(self) -> bool:
        """Whether there is a tokenizer: found out once, before the first post."""
        async with self._probing:
            if self._counts is None:
                self._counts = await self._tokenizer.offered()
                if self._arguments.remote and not self._counts:
                    self._counts = None
                    raise ModelError(
                        Failure(
                            "unsupported", f"there is no tokenizer (/tokenize) beside {self._http.base_url}"
                        )
                    )
            return self._counts

    async def _spans(self, prompt: str, continuation: str, *, rolling: bool) -> Iterable[Span]:
        ids, most = self._tokenizer.ids, self._arguments.most
        if rolling:
            whole = await ids(continuation)
            # One token less than fits, and that twice: the harness counts the generated token here as well.
            return spans.windows(whole, await self._tokenizer.prefix(), most - 1)
        if prompt:
            both = await ids(prompt + continuation)
            return [spans.fitted(spans.after_prompt(await ids(prompt), both), most)]
        whole = await ids(continuation)
        return [spans.fitted(spans.after_prefix(whole, await self._tokenizer.prefix()), most)]

    async def _counted(self, span: Span, request: Request, seed: int) -> Part:
        prompt = [span.ids] if self._arguments.as_ids else await self._tokenizer.text(span.ids)
        echo, usage = await self._post(prompt, request, seed)
        if not self._arguments.as_ids and 1 < len(echo.logprobs) != len(span.ids) + 1:
            raise ModelError(
                Failure(
                    "rejected",
                    f"{self._http.base_url} makes other tokens of the text than were meant: a cut in a "
                    "character, or a token of its own; leave tokenized_requests=False out to send ids",
                )
            )
        return by_count(echo, len(span.context), len(span.ids), self._http.base_url), usage

    async def _cut(self, prompt: str, continuation: str, request: Request, seed: int) -> Part:
        prompt = prompt or self._arguments.eos or ""
        if not prompt:
            raise ModelError(
                Failure(
                    "unsupported",
                    f"{self._http.base_url} offers no tokenizer, so a text without prompt has nothing to "
                    "stand after; give the model's end-of-text token: --model-args eos_string=TOKEN",
                )
            )
        echo, usage = await self._post(prompt + continuation, request, seed)
        return by_text(echo, prompt, continuation, self._http.base_url), usage

    async def _post(self, prompt: Any, request: Request, seed: int) -> tuple[Echo, Usage | None]:
        asked = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": seed, "echo": True}
        body = {"model": self._name, "prompt": prompt, **request.params, **asked}
        where = self._http.base_url
        try:
            value = decode_json(await self._http.post("/completions", _encode(body)), where)
        except ModelError as error:
            said = error.failure.message.lower()
            if error.failure.kind == "rejected" and ("echo" in said or "logprobs" in said):
                raise no_echo(where, f"it says: {error.failure.message}") from error
            raise
        return echo_of(first_choice(value, where), where), read_usage(value)
