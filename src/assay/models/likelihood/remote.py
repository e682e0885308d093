"""The tokenizer of an endpoint, as vLLM offers it beside `/v1`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.models.calling.http_client import HttpEndpoint, bad_reply, decode_json
from assay.models.likelihood.arguments import Arguments
from assay.models.likelihood.spans import Ids

_REMEMBERED = 256
"""Texts whose tokens are kept: the choices of a question share its prompt, and no more is needed."""
_encode = msgspec.json.Encoder().encode


class RemoteTokenizer:
    """Asks the endpoint. What was asked lately is not asked again, nor is what is being asked right now."""

    def __init__(self, http: HttpEndpoint, arguments: Arguments) -> None:
        self._http = http
        self._arguments = arguments
        self._info: dict[str, Any] = {}
        self._known: dict[str, asyncio.Task[Ids]] = {}

    async def offered(self) -> bool:
        """Whether the endpoint turns texts into tokens. What it says about itself is kept."""
        try:
            info = decode_json(await self._http.get("/tokenizer_info"), self._http.base_url)
        except ModelError as error:
            _pass_on(error)
        else:
            self._info = info if isinstance(info, dict) else {}
        try:
            return bool(await self.ids("test"))
        except ModelError as error:
            _pass_on(error)
            return False

    async def ids(self, text: str) -> Ids:
        """The tokens of a text."""
        task = self._known.pop(text, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.ensure_future(self._tokenize(text))
            task.add_done_callback(_heard)
        self._known[text] = task
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return await asyncio.shield(task)

    async def _tokenize(self, text: str) -> Ids:
        body = {"prompt": text, "add_special_tokens": self._arguments.special}
        value = decode_json(await self._http.post("/tokenize", _encode(body)), self._http.base_url)
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise bad_reply(self._http.base_url, "/tokenize gave no list of token ids")
        if not tokens and text:  # llama.cpp: it has such a path, but reads another field
            raise bad_reply(self._http.base_url, "/tokenize made no tokens of a text")
        return tokens

    async def text(self, ids: Ids) -> str:
        """The text of tokens, for endpoints that take no ids."""
        value = decode_json(
            await self._http.post("/detokenize", _encode({"tokens": ids})), self._http.base_url
        )
        text = value.get("prompt") if isinstance(value, dict) else None
        if not isinstance(text, str):
            raise bad_reply(self._http.base_url, "/detokenize gave no text")
        return text

    async def prefix(self) -> int:
        """The token before a text that has no prompt: the model's first token, else its last one."""
        if self._arguments.prefix is not None:
            return self._arguments.prefix
        first, last = [await self._named(name) for name in ("bos_token", "eos_token")]
        if (found := first or last) is not None:  # a first token of id 0 gives way, as in the harness
            return found
        if self._arguments.eos:
            return (await self.ids(self._arguments.eos))[0]
        raise ModelError(
            Failure(
                "unsupported",
                f"{self._http.base_url} does not name its special tokens (/tokenizer_info), so a text "
                "without prompt has nothing to stand after; give --model-args custom_prefix_token_id=ID",
            )
        )

    async def _named(self, name: str) -> int | None:
        text = self._info.get(name)
        return (await self.ids(text))[0] if isinstance(text, str) and text else None


def _pass_on(error: ModelError) -> None:
    """A tokenizer that is not there is an answer; an endpoint that is not there, or is ill, is none."""
    if error.retry and error.failure.kind != "bad_reply":
        raise error


def _heard(task: asyncio.Task[Ids]) -> None:
    """Whoever asked may be gone when it fails: then nobody misses the reason."""
    if not task.cancelled():
        task.exception()
