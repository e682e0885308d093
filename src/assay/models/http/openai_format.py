"""OpenAI-compatible endpoints: the parameters of requests, and the JSON of replies.

The reply formats of vLLM, llama.cpp, OpenRouter, DeepSeek and OpenAI differ in details. The readers accept all
of them, and raise `bad_reply` for a reply that cannot be used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.params import fill_variables
from assay.core.types import Response, Usage
from assay.models.http.errors import bad_reply, refusal, reply_error

# OpenAI refuses requests with more than four stop strings. `suites/toolkit/prompt.py` cuts replies at all.
MAX_STOPS = 4
# The finish reason of a reply that failed.
FAILED = "error"


def request_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as fields of a request's body, with at most four stop strings.

    `extra_body` has further fields, as in OpenAI's SDK. `headers` are no fields; `request_headers` returns them.
    """
    stops = params.get("stop")
    if stops and len(stops) > MAX_STOPS and not isinstance(stops, str):
        params = {**params, "stop": stops[:MAX_STOPS]}
    if "extra_body" in params or "headers" in params:
        fields = {name: value for name, value in params.items() if name not in ("extra_body", "headers")}
        return {**fields, **(params.get("extra_body") or {})}
    return params


def request_headers(headers: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return the HTTP headers of a request as they are sent, or None.

    `$NAME` in a value stands for the environment variable of that name, so that no secret is written to the run folder.
    Raises UsageError if the variable is not set.
    """
    if not headers:
        return None
    return {str(name): fill_variables(str(value), os.environ) for name, value in headers.items()}


def read_chat(reply: Any, where: str, adapted: tuple[str, ...] = ()) -> Response:
    """Read a chat completion. Raises a ModelError of kind "refusal" if the model refused to answer."""
    choice = first_choice(reply, where)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_reply(where, "its first choice has no message")
    text = read_text(message.get("content"), where)
    finish = read_finish(choice)
    if not text and (message.get("refusal") or finish == "content_filter"):
        reason = message.get("refusal") or "the content filter stopped the reply"
        raise refusal(str(reason), Response("", finish, read_usage(reply), cost=read_cost(reply), address=where))
    return Response(
        text,
        finish,
        read_usage(reply),
        reasoning=read_reasoning(message),
        cost=read_cost(reply),
        address=where,
        adapted=adapted,
    )


class _PlainMessage(Struct, gc=False):
    content: str
    reasoning_content: str | None = None
    reasoning: str | None = None


class _PlainChoice(Struct, gc=False):
    message: _PlainMessage
    finish_reason: str | None = None


class _InputDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _PlainUsage(Struct, gc=False, forbid_unknown_fields=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: Any = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _PlainReply(Struct, gc=False):
    choices: list[_PlainChoice]
    usage: _PlainUsage | None = None


_decode_plain = msgspec.json.Decoder(_PlainReply).decode


def read_plain_chat(body: bytes, where: str, adapted: tuple[str, ...] = ()) -> Response | None:
    """Return what `read_chat` returns for a reply of the most common form, in a third of the time; else None.

    It has a text, and token counts with the usual details, if any. Fields that no reply needs are not looked at, so an
    odd byte in them does not matter.
    """
    try:
        reply = _decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not reply.choices:
        return None
    choice, counted = reply.choices[0], reply.usage
    message = choice.message
    if not message.content or choice.finish_reason == FAILED:
        return None
    usage = None
    if counted is not None:
        tokens = counted.prompt_tokens
        cached = reasoned = 0
        if counted.prompt_tokens_details is not None:
            cached = min(max(counted.prompt_tokens_details.cached_tokens or 0, 0), tokens)
        if counted.completion_tokens_details is not None:
            reasoned = counted.completion_tokens_details.reasoning_tokens or 0
        usage = Usage(tokens, counted.completion_tokens, cached, reasoned)
    reasoning = message.reasoning_content or message.reasoning or ""
    return Response(message.content, choice.finish_reason, usage, None, reasoning, None, where, adapted)


def read_completion(reply: Any, where: str, adapted: tuple[str, ...] = ()) -> Response:
    """Read a text completion."""
    choice = first_choice(reply, where)
    if "text" not in choice:
        raise bad_reply(where, "its first choice has no text")
    return Response(
        read_text(choice.get("text"), where),
        read_finish(choice),
        read_usage(reply),
        reasoning=read_reasoning(choice),
        cost=read_cost(reply),
        address=where,
        adapted=adapted,
    )


def first_choice(reply: Any, where: str) -> dict[str, Any]:
    """Return the first choice of a reply. Raises ModelError if there is none, or if it ended with an error."""
    try:
        choice = reply["choices"][0]
    except (KeyError, IndexError, TypeError):
        if isinstance(reply, dict) and reply.get("error"):
            raise reply_error(reply["error"], where) from None
        raise bad_reply(where, "it has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply(where, "its first choice is not an object")
    # OpenRouter and vLLM end a reply so if the model failed midway. Its text, if any, is no answer.
    if choice.get("finish_reason") == FAILED:
        raise reply_error(choice.get("error") or reply.get("error") or "it names no reason", where)
    return choice


def read_text(content: Any, where: str) -> str:
    """Return the text of a message, whose `content` is a string, null (empty) or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join([part for part in parts if isinstance(part, str)])
    if content is not None and not isinstance(content, str):
        raise bad_reply(where, f"its text is {content!r}")
    return content or ""


def read_finish(choice: dict[str, Any]) -> str | None:
    """Return why the reply ended ("stop", "length"), or None if the endpoint sent no reason."""
    finish = choice.get("finish_reason")
    return finish if isinstance(finish, str) else None


def read_usage(reply: Any) -> Usage | None:
    """Return the token counts, or None if the endpoint sent none or sent no whole numbers.

    Chat and text completions have prompt_tokens and completion_tokens. OpenAI's newer paths have input_tokens
    and output_tokens.
    """
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return None
    input_tokens = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    output_tokens = usage.get("completion_tokens") or usage.get("output_tokens") or 0
    if type(input_tokens) is not int or type(output_tokens) is not int:
        return None
    # Most servers of open models send three numbers and no details.
    if len(usage) <= 3 and "total_tokens" in usage:
        return Usage(input_tokens, output_tokens)
    details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    reasoning_tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return Usage(
        input_tokens,
        output_tokens,
        cached=min(_read_cached(usage), input_tokens),
        reasoning=reasoning_tokens if type(reasoning_tokens) is int else 0,
    )


def _read_cached(usage: dict[str, Any]) -> int:
    """Return the input tokens that the endpoint read from its cache; 0 if it does not say."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return cached if type(cached) is int and cached > 0 else 0


def read_cost(reply: Any) -> float | None:
    """Return the price of a call, or None. OpenRouter sends it in `usage.cost`; most endpoints send none."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    cost = usage.get("cost") if isinstance(usage, dict) else None
    # isinstance(True, int) is true in Python, so booleans are excluded by name.
    if cost is None or isinstance(cost, bool) or not isinstance(cost, (int, float)):
        return None
    return float(cost) if math.isfinite(cost) else None


def read_reasoning(message: dict[str, Any]) -> str:
    """Return the reasoning text: vLLM and DeepSeek send `reasoning_content`, OpenRouter sends `reasoning`."""
    text = message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""
