"""Provider `openai-responses/NAME`: OpenAI's Responses API, or an endpoint that speaks it.

Each request is a POST to `/responses`. The API has no seed and no stop strings. Replies are not stored at OpenAI.
"""

from __future__ import annotations

from typing import Any

from assay.core.errors import ModelError
from assay.core.roles import CHAT, About, Connection
from assay.core.types import Failure, Request, Response
from assay.models.http.adapt import AdaptedEndpoint, Body, without
from assay.models.http.client import HttpEndpoint
from assay.models.http.dialect import DialectParams, content_parts, is_plain, split_system
from assay.models.http.errors import bad_reply, error_kind, refusal
from assay.models.http.openai_format import read_cost, read_usage, request_headers
from assay.models.http.vendor import OPENAI, key_headers, vendor_url

ABOUT = About(
    summary="models behind OpenAI's Responses API",
    needs="OPENAI_API_KEY; OPENAI_BASE_URL or --base-url for another endpoint",
    can=frozenset({CHAT}),
    example="openai-responses/gpt-5-mini",
    keys=OPENAI.keys,
)
CHANGES = (without("temperature"), without("top_p"), without("max_output_tokens"), without("store"))


class ResponsesModel:
    """One model at one endpoint of the Responses API."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        self.endpoint = vendor_url(connection, OPENAI)
        self._name = connection.name
        headers = key_headers(connection, OPENAI)
        self._http = HttpEndpoint(self.endpoint, headers, connection.timeout, connection.network)
        self._adapted = AdaptedEndpoint(self._http, CHANGES, OPENAI.key_variables)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one request. The caller retries, so this method does not."""
        body, texts = self._body(request, seed)
        reply, changes = await self._adapted.post("/responses", body, request_headers(request.params.get("headers")))
        return _read(reply, self.endpoint, (*texts, *changes))

    def _body(self, request: Request, seed: int) -> tuple[Body, list[str]]:
        """Return the body of a request, and what it lacks."""
        params = DialectParams(request.params, seed)
        system, messages = split_system(request, params, f"{OPENAI.name}'s Responses API")
        body: Body = {"model": self._name}
        if system:
            body["instructions"] = system
        body["input"] = [{"role": each["role"], "content": _content(each)} for each in messages]
        # Otherwise OpenAI keeps prompts and replies for 30 days.
        body["store"] = False
        limit = params.take_limit()
        if limit is not None:
            body["max_output_tokens"] = limit
        effort = params.take("reasoning_effort")
        if effort is not None:
            body["reasoning"] = {"effort": effort}
        text: dict[str, Any] = {}
        wanted = params.take("response_format")
        if isinstance(wanted, dict):
            # The fields of `json_schema` stand beside `type` here.
            text["format"] = {"type": wanted.get("type"), **(wanted.get("json_schema") or {})}
        verbosity = params.take("verbosity")
        if verbosity is not None:
            text["verbosity"] = verbosity
        if text:
            body["text"] = text
        params.leave_out("seed", "stop", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "n")
        return body | params.rest(), params.adapted

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _content(message: dict[str, Any]) -> str | list[dict[str, Any]]:
    if is_plain(message):
        return str(message["content"])
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    return [
        {"type": "input_image", "image_url": part.image} if part.image else {"type": kind, "text": part.text}
        for part in content_parts(message, OPENAI.name)
    ]


def _read(reply: Any, where: str, adapted: tuple[str, ...]) -> Response:
    """Read a response. Raises ModelError if it failed, or if the model refused to answer."""
    if not isinstance(reply, dict):
        raise bad_reply(where, "it is not an object")
    error = reply.get("error")
    if isinstance(error, dict):
        code, message = str(error.get("code")), str(error.get("message"))
        kind = error_kind(code, message)
        raise ModelError(Failure(kind, f"{where}: {code}: {message}"), retry=kind in ("rate_limited", "server_error"))
    output = reply.get("output")
    if not isinstance(output, list):
        raise bad_reply(where, "it has no output")
    items = [item for item in output if isinstance(item, dict)]
    parts = _parts(items, "message", "content")
    text = _joined(parts, "output_text", "text")
    details = reply.get("incomplete_details")
    reason = None
    if reply.get("status") == "incomplete" and isinstance(details, dict) and details.get("reason"):
        reason = str(details["reason"])
    refused = _joined(parts, "refusal", "refusal")
    if not text and (refused or reason == "content_filter"):
        billed = Response("", reason or "refusal", read_usage(reply), cost=read_cost(reply), address=where)
        raise refusal(f"{where}: {refused or 'the content filter stopped the reply'}", billed)
    # OpenAI sends summaries of the reasoning, open models the reasoning itself.
    thoughts = [
        str(part.get("text", ""))
        for part in (*_parts(items, "reasoning", "summary"), *_parts(items, "reasoning", "content"))
    ]
    return Response(
        text,
        {None: "stop", "max_output_tokens": "length"}.get(reason, reason),
        read_usage(reply),
        reasoning="\n".join(filter(None, thoughts)),
        cost=read_cost(reply),
        address=where,
        adapted=adapted,
    )


def _parts(items: list[dict[str, Any]], kind: str, field: str) -> list[dict[str, Any]]:
    """Return the parts in a field of all items of a kind."""
    lists = [item.get(field) for item in items if item.get("type") == kind]
    return [part for each in lists if isinstance(each, list) for part in each if isinstance(part, dict)]


def _joined(parts: list[dict[str, Any]], kind: str, field: str) -> str:
    return "".join(str(part.get(field, "")) for part in parts if part.get("type") == kind)


def connect(connection: Connection) -> ResponsesModel:
    """Return the model `openai-responses/NAME`. Opens no connection yet."""
    return ResponsesModel(connection)
