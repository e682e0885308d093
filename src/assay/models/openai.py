"""Chat models behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.connect import CHAT, FORWARD, LIKELIHOOD, About, Connection, openai_base_url, openai_key
from assay.core.errors import ModelError
from assay.core.types import Failure, Request, Response, Usage
from assay.models.calling.forward import forward
from assay.models.calling.http_client import HttpEndpoint, bad_reply, decode_json
from assay.models.calling.wire import is_foreign

ABOUT = About(
    summary="chat models behind an OpenAI-compatible endpoint",
    needs="--base-url or OPENAI_BASE_URL; OPENAI_API_KEY where the endpoint wants a key",
    can=frozenset({CHAT}),
    example="openai/gpt-4o-mini",
)
_MOST_STOPS = 4
_encode = msgspec.json.Encoder().encode


class OpenAIModel:
    """One endpoint's `/chat/completions`."""

    can = ABOUT.can | {FORWARD}

    def __init__(self, connection: Connection) -> None:
        self.endpoint = openai_base_url(connection)
        self._name = connection.name
        key = openai_key(connection)
        self._http = HttpEndpoint(self.endpoint, key, connection.timeout)

    async def send(self, request: Request, seed: int) -> Response:
        """One attempt at one chat completion."""
        if is_foreign(request):
            return await forward(self._http, self._name, request, seed)
        if request.continuation is not None:
            raise ModelError(
                Failure(
                    "rejected", f"chat models cannot do {LIKELIHOOD}; try openai-completions/{self._name}"
                )
            )
        messages = request.messages or [{"role": "user", "content": request.prompt}]
        body = {"model": self._name, "messages": messages, "seed": seed, **wire_params(request.params)}
        reply = await self._http.post("/chat/completions", _encode(body))
        return chat_response(decode_json(reply, self.endpoint), self.endpoint)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def connect(connection: Connection) -> OpenAIModel:
    """Called by the registry."""
    return OpenAIModel(connection)


def wire_params(params: dict[str, Any]) -> dict[str, Any]:
    """As endpoints want them: four stops at most, the rest is cut on our side. A seed among them wins."""
    stops = params.get("stop")
    return {**params, "stop": stops[:_MOST_STOPS]} if stops and len(stops) > _MOST_STOPS else params


def usage_of(value: dict[str, Any]) -> Usage | None:
    """Tokens as the endpoint counted them, if it did so in whole numbers."""
    usage = value.get("usage")
    if not isinstance(usage, dict):
        return None
    asked, said = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return Usage(asked, said) if type(asked) is int and type(said) is int else None


def text_of(value: Any, where: str) -> str:
    """The text of a reply: a string, null for none, or a list of parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        value = "".join([part for part in parts if isinstance(part, str)])
    if value is not None and not isinstance(value, str):
        raise bad_reply(where, f"its text is {value!r}")
    return value or ""


def finish_of(choice: dict[str, Any]) -> str | None:
    """Why the reply ended, where the endpoint says so."""
    finish = choice.get("finish_reason")
    return finish if isinstance(finish, str) else None


def first_choice(value: Any, where: str) -> dict[str, Any]:
    """The first of the reply's choices."""
    try:
        choice = value["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply(where, "it has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply(where, "its first choice is not an object")
    return choice


def chat_response(value: Any, where: str) -> Response:
    """A chat completion as a response; a refusal counts against the model."""
    choice = first_choice(value, where)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply(where, "its first choice has no message")
    text, finish = text_of(message.get("content"), where), finish_of(choice)
    if not text and (message.get("refusal") or finish == "content_filter"):
        raise ModelError(
            Failure("refusal", str(message.get("refusal") or "the content filter stopped the reply"))
        )
    return Response(text, finish, usage_of(value))
