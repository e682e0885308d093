"""Sends what a foreign SDK asked to the run's own endpoint, with the run's key, and keeps the reply whole."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.errors import ModelError
from assay.core.types import Failure, Request, Response, Usage
from assay.models.calling.http_client import HttpEndpoint, bad_reply, decode_json
from assay.models.calling.http_wire import HttpResponse
from assay.models.calling.openai_format import read_cost, read_finish, read_reasoning
from assay.models.calling.wire import CHAT_PATH, EVENTS, TEXT_PATH, foreign_body, kept

_DONE = "[DONE]"
_encode = msgspec.json.Encoder().encode


async def forward(http: HttpEndpoint, name: str, request: Request, seed: int) -> Response:
    """One attempt at the SDK's request. A stream is read to its end: a part of one is no reply."""
    path = request.params["path"]
    reply = await http.post(path, _encode(foreign_body(request, name, seed)))
    if reply.status == 200 and reply.headers.get("Content-Type", "").startswith(EVENTS):
        return _streamed(path, reply, http.base_url)
    value = decode_json(reply, http.base_url)
    if path not in (CHAT_PATH, TEXT_PATH):
        return Response(
            "", None, _usage(value), kept(path, value), cost=read_cost(value), address=http.base_url
        )
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list):
        raise bad_reply(http.base_url, "it has no choices")
    text, reasoning, finish = _said(choices, "message")
    return Response(
        text,
        finish,
        _usage(value),
        kept(path, value),
        reasoning=reasoning,
        cost=read_cost(value),
        address=http.base_url,
    )


def _streamed(path: str, reply: HttpResponse, where: str) -> Response:
    try:
        events = reply.body.decode()
        # Not splitlines: texts may hold separators that end no line of an event stream.
        lines = [line.rstrip("\r") for line in events.split("\n")]
        payloads = [line[5:].strip() for line in lines if line.startswith("data:")]
        chunks = [msgspec.json.decode(payload) for payload in payloads if payload != _DONE]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_reply(where, f"an event of its stream is not JSON: {error}") from None
    if path in (CHAT_PATH, TEXT_PATH) and _DONE not in payloads:
        failure = Failure("connection", f"the stream from {where} was cut before its end")
        raise ModelError(failure, retry=True)
    return _joined([chunk for chunk in chunks if isinstance(chunk, dict)], events, where)


def _joined(chunks: list[dict[str, Any]], events: str, where: str) -> Response:
    """The stream as one reply. A server that fails in the middle may say so in an event and end properly."""
    texts, thoughts = [], []
    finish, usage, cost = None, None, None
    for chunk in chunks:
        if chunk.get("error"):
            raise ModelError(
                Failure("server_error", f"{where} broke its stream off: {chunk['error']}"), retry=True
            )
        text, reasoning, ended = _said(chunk.get("choices"), "delta")
        texts.append(text)
        thoughts.append(reasoning)
        finish, usage = ended or finish, _usage(chunk) or usage
        chunk_cost = read_cost(chunk)
        if chunk_cost is not None:
            cost = chunk_cost
    return Response(
        "".join(texts),
        finish,
        usage,
        {"events": events},
        reasoning="".join(thoughts),
        cost=cost,
        address=where,
    )


def _said(choices: Any, field: str) -> tuple[str, str, str | None]:
    """Text, reasoning and finish reason of the first choice. Foreign code may ask for stranger replies."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            message = choice.get(field)
            if not isinstance(message, dict):
                message = {"content": choice.get("text")}
            text = message.get("content")
            return text if isinstance(text, str) else "", read_reasoning(message), read_finish(choice)
    return "", "", None


def _usage(value: Any) -> Usage | None:
    usage = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    asked = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    said = usage.get("completion_tokens") or usage.get("output_tokens") or 0
    return Usage(asked, said) if type(asked) is int and type(said) is int else None
