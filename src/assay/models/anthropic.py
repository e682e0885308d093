"""Provider `anthropic/NAME`: Claude models at Anthropic's Messages API, or at an endpoint that speaks it.

Requests go to `/v1/messages`. The API has no seed, wants `max_tokens`, and has the system prompt apart from the
messages. The default version of the API is 2023-06-01, because version 2026-10-21 takes no temperature from any model.
"""

from __future__ import annotations

from typing import Any

from assay.core.roles import CHAT, About, Connection
from assay.core.types import Request, Response, Usage
from assay.models.http.adapt import AdaptedEndpoint, Body, RequestChange, without
from assay.models.http.client import HttpEndpoint
from assay.models.http.dialect import DialectParams, content_parts, is_plain, split_system
from assay.models.http.errors import bad_reply, refusal
from assay.models.http.openai_format import request_headers
from assay.models.http.vendor import Vendor, key_headers, vendor_url

VENDOR = Vendor(
    "Anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_API_KEY",),
    ("ANTHROPIC_BASE_URL",),
    tokens=("ANTHROPIC_AUTH_TOKEN",),
)
ABOUT = About(
    summary="Claude models at Anthropic's Messages API",
    needs="ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN; ANTHROPIC_BASE_URL or --base-url for another endpoint",
    can=frozenset({CHAT}),
    example="anthropic/claude-sonnet-4-6",
    keys=VENDOR.keys,
    args=frozenset({"anthropic_version"}),
)
OLDER_VERSION, NEWER_VERSION = "2023-06-01", "2026-10-21"
# The API has no default. All models write this much without streaming, with room for reasoning.
MAX_TOKENS = 16_000
# Tokens of reasoning for models that take a budget instead of an effort. The smallest that the API allows is 1,024.
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 32_768}
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


def _budget(body: Body) -> Body:
    """Return the request with a budget of reasoning tokens instead of an effort, on top of the tokens of the answer."""
    effort = body["output_config"].get("effort")
    if effort not in BUDGETS:
        return body
    config = {name: value for name, value in body["output_config"].items() if name != "effort"}
    thinking = {"type": "enabled", "budget_tokens": BUDGETS[effort]}
    changed = {**body, "thinking": thinking, "max_tokens": body["max_tokens"] + BUDGETS[effort]}
    del changed["output_config"]
    return changed | ({"output_config": config} if config else {})


CHANGES = (
    RequestChange("output_config", "a budget of reasoning tokens instead of an effort", _budget, r"effort|adaptive"),
    without("temperature"),
    without("top_p"),
    without("top_k"),
)


class AnthropicModel:
    """One model at one endpoint of the Messages API."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        # Anthropic's SDK has base URLs without a version. Accept those with one too.
        self.endpoint = vendor_url(connection, VENDOR).removesuffix("/v1")
        self._name = connection.name
        self._version = str(connection.args.get("anthropic_version") or OLDER_VERSION)
        headers = key_headers(connection, VENDOR, "x-api-key") | {"anthropic-version": self._version}
        self._http = HttpEndpoint(self.endpoint, headers, connection.timeout, connection.network)
        self._adapted = AdaptedEndpoint(self._http, CHANGES, VENDOR.key_variables)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one message. The caller retries, so this method does not."""
        body, texts = self._body(request, seed)
        reply, changes = await self._adapted.post("/v1/messages", body, request_headers(request.params.get("headers")))
        return _read(reply, self.endpoint, (*texts, *changes))

    def _body(self, request: Request, seed: int) -> tuple[Body, list[str]]:
        """Return the body of a request, and what it lacks."""
        params = DialectParams(request.params, seed)
        system, messages = split_system(request, params, VENDOR.name)
        limit = params.take_limit()
        if limit is None:
            params.adapted.append(f"max_tokens {MAX_TOKENS}")
            limit = MAX_TOKENS
        body: Body = {"model": self._name, "max_tokens": limit}
        if system:
            body["system"] = system
        body["messages"] = [{"role": each["role"], "content": _content(each)} for each in messages]
        stops = params.take_stops()
        # The API rejects stop sequences of whitespace alone, such as the "\n\n" of many tasks.
        if words := [stop for stop in stops if stop.strip()]:
            body["stop_sequences"] = words
        if len(words) < len(stops):
            params.adapted.append("no stop of whitespace alone")
        config: dict[str, Any] = {}
        effort = params.take_effort(("none", *BUDGETS))
        if effort == "none":
            body["thinking"] = {"type": "disabled"}
        elif effort is not None:
            body["thinking"] = {"type": "adaptive"}
            config["effort"] = effort
        schema = params.take_schema()
        if schema:
            config["format"] = {"type": "json_schema", "schema": _closed(schema)}
        elif schema is not None:
            params.adapted.append("no response_format")
        if config:
            body["output_config"] = config
        params.leave_out("seed", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "n")
        if self._version >= NEWER_VERSION:
            params.leave_out("temperature", "top_p", "top_k")
        return body | params.rest(), params.adapted

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _content(message: dict[str, Any]) -> str | list[dict[str, Any]]:
    if is_plain(message):
        return str(message["content"])
    blocks: list[dict[str, Any]] = []
    for part in content_parts(message, VENDOR.name):
        if not part.image:
            blocks.append({"type": "text", "text": part.text})
        elif part.inline:
            media_type, data = part.inline
            source = {"type": "base64", "media_type": media_type, "data": data}
            blocks.append({"type": "image", "source": source})
        else:
            blocks.append({"type": "image", "source": {"type": "url", "url": part.image}})
    return blocks


def _closed(schema: Any) -> Any:
    """Return a JSON schema whose objects allow no other keys, as the API demands."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _read(reply: Any, where: str, adapted: tuple[str, ...]) -> Response:
    """Read a message. Raises a ModelError of kind "refusal" if the model refused to answer."""
    content = reply.get("content") if isinstance(reply, dict) else None
    if not isinstance(content, list):
        raise bad_reply(where, "it has no content")
    stop_reason = reply.get("stop_reason")
    if stop_reason == "refusal":
        # What was written before the refusal is to be discarded, as Anthropic says.
        details = reply.get("stop_details") or {}
        reason = details.get("explanation") or details.get("category") or "the model refused to answer"
        billed = Response("", stop_reason, _usage(reply.get("usage")), address=where)
        raise refusal(f"{where}: {reason}", billed)
    blocks = [block for block in content if isinstance(block, dict)]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    thoughts = [str(block.get("thinking", "")) for block in blocks if block.get("type") == "thinking"]
    return Response(
        text,
        _FINISH.get(str(stop_reason), stop_reason if isinstance(stop_reason, str) else None),
        _usage(reply.get("usage")),
        reasoning="\n".join(filter(None, thoughts)),
        address=where,
        adapted=adapted,
    )


def _usage(usage: Any) -> Usage | None:
    """Return the token counts. `input_tokens` has neither the tokens read from the cache nor those written to it."""
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [usage.get(name) or 0 for name in names]
    output = usage.get("output_tokens") or 0
    details = usage.get("output_tokens_details")
    thinking = details.get("thinking_tokens") if isinstance(details, dict) else 0
    if not all(type(count) is int for count in (*counts, output)):
        return None
    return Usage(sum(counts), output, cached=counts[2], reasoning=thinking if type(thinking) is int else 0)


def connect(connection: Connection) -> AnthropicModel:
    """Return the model `anthropic/NAME`. Opens no connection yet."""
    return AnthropicModel(connection)
