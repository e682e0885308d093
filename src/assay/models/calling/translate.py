"""Chat completions of models without endpoint: an SDK's body as our request, our reply as OpenAI's JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.core.hashing import fingerprint
from assay.core.types import Request, Response
from assay.models.calling.wire import EVENTS, Answer

_OURS = frozenset({"model", "messages", "seed", "stream", "stream_options", "n"})
_encode = msgspec.json.Encoder().encode


class Unsupported(Exception):
    """The SDK asks for something such a model cannot give; the text says what."""


def translated(model: str, endpoint: str, body: dict[str, Any]) -> Request:
    """The request as a suite of ours would have made it, so that both share the log."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Unsupported("the body has no list of messages")
    if body.get("tools") or body.get("functions"):
        raise Unsupported(f"{model} answers with text and cannot call tools")
    if body.get("n") not in (None, 1):
        raise Unsupported(f"{model} gives one choice for each request; leave n out")
    params = {name: value for name, value in body.items() if name not in _OURS and value is not None}
    if "max_completion_tokens" in params:
        params["max_tokens"] = params.pop("max_completion_tokens")
    if isinstance(params.get("stop"), str):
        params["stop"] = [params["stop"]]
    return Request(model=model, endpoint=endpoint, messages=messages, params=params)


def wrapped(request: Request, response: Response, body: dict[str, Any]) -> Answer:
    """The reply in OpenAI's shape. Nothing in it depends on the time, so a replay gives the same bytes."""
    stream = bool(body.get("stream"))
    value: dict[str, Any] = {
        "id": f"chatcmpl-{fingerprint([request, response])}",
        "object": "chat.completion.chunk" if stream else "chat.completion",
        "created": 0,
        "model": body.get("model") or request.model.partition("/")[2],
        "choices": [_choice(response, "delta" if stream else "message")],
    }
    if response.usage:
        asked, said = response.usage.input, response.usage.output
        value["usage"] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    if stream:
        return Answer(200, b"data: %b\n\ndata: [DONE]\n\n" % _encode(value), EVENTS)
    return Answer(200, _encode(value))


def _choice(response: Response, field: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": response.text}
    return {"index": 0, field: message, "finish_reason": response.finish or "stop", "logprobs": None}
