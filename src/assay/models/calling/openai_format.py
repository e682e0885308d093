"""OpenAI-compatible endpoints: their URL and key, the parameters of requests, and the JSON of replies.

The reply formats of vLLM, llama.cpp, OpenRouter, DeepSeek and OpenAI differ in details. The readers accept all
of them, and raise `bad_reply` for a reply that cannot be used.
"""

from __future__ import annotations

import math
import os
from typing import Any

from assay.core.connect import Connection
from assay.core.envfile import COMMON_KEY, keys_in
from assay.core.errors import ModelError, UsageError
from assay.core.params import fill_variables
from assay.core.types import Failure, Response, Usage
from assay.models.calling.http_errors import bad_reply

OPENAI_URL = "https://api.openai.com/v1"
# OpenAI refuses requests with more than four stop strings. `solvers/prompt.py` cuts replies at all.
MAX_STOPS = 4


def openai_base_url(connection: Connection) -> str:
    """Return the base URL: the connection's, else OPENAI_BASE_URL, else OpenAI's.

    Raises UsageError for a URL that is not HTTP or has credentials, and for OpenAI's without a key.
    """
    url = connection.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"a base URL begins with http:// or https://, not {url!r}")
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise UsageError(
            "Remove the credentials from the base URL: it is saved in the run folder. Use OPENAI_API_KEY instead."
        )
    # In lm-evaluation-harness, base_url is the whole URL of a request. Accept its URLs too.
    for path in ("/chat/completions", "/completions"):
        url = url.rstrip("/").removesuffix(path)
    if url == OPENAI_URL and not openai_key(connection):
        raise UsageError(
            "no endpoint and no key: name an endpoint with --base-url or OPENAI_BASE_URL, "
            f"or set {connection.key or COMMON_KEY} for {OPENAI_URL}"
        )
    return url


def openai_key(connection: Connection) -> str | None:
    """Return the key of the connection's own variable, else OPENAI_API_KEY, else None.

    Each variable is looked up in the environment first, then in the connection's .env file.
    """
    env_file = keys_in(connection.env_file)
    variables = [connection.key, COMMON_KEY] if connection.key else [COMMON_KEY]
    for variable in variables:
        key = os.environ.get(variable) or env_file.get(variable)
        if key:
            return key
    return None


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


def request_headers(params: dict[str, Any]) -> dict[str, str] | None:
    """Return the HTTP headers among the parameters, or None.

    `$NAME` in a value stands for the environment variable of that name, so that no secret is written to the run folder.
    Raises UsageError if the variable is not set.
    """
    headers = params.get("headers")
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
        raise ModelError(Failure("refusal", str(reason)))
    return Response(
        text,
        finish,
        read_usage(reply),
        reasoning=read_reasoning(message),
        cost=read_cost(reply),
        address=where,
        adapted=adapted,
    )


def read_completion(reply: Any, where: str, adapted: tuple[str, ...] = ()) -> Response:
    """Read a text completion."""
    choice = first_choice(reply, where)
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
    """Return the first choice of a reply."""
    try:
        choice = reply["choices"][0]
    except (KeyError, IndexError, TypeError):
        raise bad_reply(where, "it has no choices") from None
    if not isinstance(choice, dict):
        raise bad_reply(where, "its first choice is not an object")
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
    if type(input_tokens) is int and type(output_tokens) is int:
        return Usage(input_tokens, output_tokens, cached=min(_read_cached(usage), input_tokens))
    return None


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
