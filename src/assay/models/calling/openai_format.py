"""The JSON of OpenAI-compatible endpoints: reads replies, and prepares the parameters of requests.

Endpoints differ in details. Every function here accepts what vLLM, llama.cpp, OpenRouter, DeepSeek and OpenAI
send, and raises `bad_reply` for a reply that cannot be used.
"""

from __future__ import annotations

import math
from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Failure, Response, Usage
from assay.models.calling.http_client import bad_reply

# OpenAI refuses requests with more stop strings. The caller cuts the reply at the others.
MAX_STOPS = 4


def request_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the generation parameters with at most four stop strings."""
    stops = params.get("stop")
    if stops and len(stops) > MAX_STOPS:
        return {**params, "stop": stops[:MAX_STOPS]}
    return params


def read_chat(reply: Any, where: str) -> Response:
    """Read a chat completion. Raises a ModelError of kind "refusal" if the model refused to answer."""
    choice = first_choice(reply, where)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply(where, "its first choice has no message")
    text = read_text(message.get("content"), where)
    finish = read_finish(choice)
    if not text and (message.get("refusal") or finish == "content_filter"):
        reason = message.get("refusal") or "the content filter stopped the reply"
        raise ModelError(Failure("refusal", str(reason)))
    return Response(
        text,
        finish,
        read_usage(reply),
        reasoning=read_reasoning(message),
        cost=read_cost(reply),
        address=where,
    )


def read_completion(reply: Any, where: str) -> Response:
    """Read a text completion."""
    choice = first_choice(reply, where)
    return Response(
        read_text(choice.get("text"), where),
        read_finish(choice),
        read_usage(reply),
        reasoning=read_reasoning(choice),
        cost=read_cost(reply),
        address=where,
    )


def first_choice(reply: Any, where: str) -> dict[str, Any]:
    """Return the first choice of a reply."""
    try:
        choice = reply["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply(where, "it has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply(where, "its first choice is not an object")
    return choice


def read_text(content: Any, where: str) -> str:
    """Return the text of a message: a string, null for an empty one, or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join([part for part in parts if isinstance(part, str)])
    if content is not None and not isinstance(content, str):
        raise bad_reply(where, f"its text is {content!r}")
    return content or ""


def read_finish(choice: dict[str, Any]) -> str | None:
    """Return why the reply ended ("stop", "length"), if the endpoint says so."""
    finish = choice.get("finish_reason")
    return finish if isinstance(finish, str) else None


def read_usage(reply: Any) -> Usage | None:
    """Return the numbers of tokens, if the endpoint counted them in whole numbers.

    Chat and text completions say prompt_tokens and completion_tokens, OpenAI's newer paths input_tokens and
    output_tokens.
    """
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return None
    input_tokens = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    output_tokens = usage.get("completion_tokens") or usage.get("output_tokens") or 0
    if type(input_tokens) is int and type(output_tokens) is int:
        return Usage(input_tokens, output_tokens)
    return None


def read_cost(reply: Any) -> float | None:
    """Return the price of a call where the endpoint states it, as OpenRouter does in `usage.cost`."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    cost = usage.get("cost") if isinstance(usage, dict) else None
    # A bool is an int in Python, but no price.
    if isinstance(cost, (int, float)) and not isinstance(cost, bool) and math.isfinite(cost):
        return float(cost)
    return None


def read_reasoning(message: dict[str, Any]) -> str:
    """Return the model's thinking: `reasoning_content` of vLLM and DeepSeek, `reasoning` of OpenRouter."""
    for name in ("reasoning_content", "reasoning"):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    return ""
