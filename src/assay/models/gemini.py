"""Provider `gemini/NAME`: Gemini models at Google's Gemini API, and their embeddings.

Requests go to `/models/NAME:generateContent`. A blocked prompt comes with status 200 and without an answer; it is a
refusal. Reasoning comes as parts that are marked as thoughts.
"""

from __future__ import annotations

import os
import re
from typing import Any

from assay.core.errors import ModelError
from assay.core.roles import CHAT, EMBEDDINGS, About, Connection
from assay.core.types import Failure, Request, Response, SdkRequest, Usage
from assay.models.http.adapt import AdaptedEndpoint, Body, RequestChange
from assay.models.http.client import HttpEndpoint
from assay.models.http.dialect import DialectParams, content_parts, split_system
from assay.models.http.errors import bad_reply, refusal
from assay.models.http.openai_format import request_headers
from assay.models.http.sdk_requests import EMBEDDINGS_PATH, pack_reply
from assay.models.http.vendor import Vendor, key_headers, vendor_url

VENDOR = Vendor(
    "Gemini",
    "https://generativelanguage.googleapis.com",
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ("GOOGLE_GEMINI_BASE_URL",),
)
ABOUT = About(
    summary="Gemini models at Google's Gemini API",
    needs="GEMINI_API_KEY or GOOGLE_API_KEY; GOOGLE_GEMINI_BASE_URL or --base-url for another endpoint",
    can=frozenset({CHAT, EMBEDDINGS}),
    example="gemini/gemini-2.5-flash",
    keys=VENDOR.keys,
    args=frozenset({"api_version"}),
)
# The API rejects more.
MAX_STOPS = 5
# Tokens of reasoning for models that take a budget instead of a level, such as Gemini 2.5. Google's own translation of
# OpenAI's requests has the same numbers.
BUDGETS = {"MINIMAL": 1_024, "LOW": 1_024, "MEDIUM": 8_192, "HIGH": 24_576}
# Finish reasons of content that Google flagged. LANGUAGE is a language that the model may not use.
_BLOCKED = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    }
)
_FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}
# Fields of OpenAI's requests for embeddings that Google's have not, or that stand elsewhere.
_OF_OPENAI_EMBEDDINGS = frozenset({"input", "model", "encoding_format", "user"})
_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")
# Names in `generationConfig`, by OpenAI's name.
_NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


def _without(name: str, field: str) -> RequestChange:
    """Return the change that leaves out a field of `generationConfig`."""

    def apply(body: Body) -> Body:
        config = {key: value for key, value in body["generationConfig"].items() if key != field}
        return {**body, "generationConfig": config}

    # Errors name fields as `topP` or `top_p`; both penalties are only called "Penalty".
    named = rf"(?<![\w-])(?:{field}|{name})(?![\w-])" + ("|Penalty" if name.endswith("_penalty") else "")
    return RequestChange("generationConfig", f"no {name}", apply, named)


def _budget(body: Body) -> Body:
    """Return the request with a budget of reasoning tokens instead of a level."""
    config = body["generationConfig"]
    thinking = config.get("thinkingConfig", {})
    if thinking.get("thinkingLevel") not in BUDGETS:
        return body
    others = {name: value for name, value in thinking.items() if name != "thinkingLevel"}
    budget = others | {"thinkingBudget": BUDGETS[thinking["thinkingLevel"]]}
    return {**body, "generationConfig": {**config, "thinkingConfig": budget}}


CHANGES = (
    RequestChange(
        "generationConfig",
        "a budget of reasoning tokens instead of a level",
        _budget,
        r"(?i)thinking[ _]?level",
    ),
    *(_without(name, field) for name, field in _NAMES.items()),
)


class GeminiModel:
    """One model at the Gemini API."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        url = vendor_url(connection, VENDOR)
        version = connection.args.get("api_version") or os.environ.get("GOOGLE_GENAI_API_VERSION") or "v1"
        # Google's SDK has base URLs without a version. Accept those with one too.
        self.endpoint = url if _VERSION.search(url) else f"{url}/{version}"
        self._name = connection.name.removeprefix("models/")
        headers = key_headers(connection, VENDOR, "x-goog-api-key")
        self._http = HttpEndpoint(self.endpoint, headers, connection.timeout, connection.network)
        self._adapted = AdaptedEndpoint(self._http, CHANGES, VENDOR.key_variables)

    async def send(self, request: Request, seed: int) -> Response:
        """Send one request. The caller retries, so this method does not."""
        if request.sdk is not None:
            return await self._embed(request.sdk)
        body, texts = _body(request, seed)
        path = f"/models/{self._name}:generateContent"
        reply, changes = await self._adapted.post(path, body, request_headers(request.params.get("headers")))
        return _read(reply, self.endpoint, (*texts, *changes))

    async def _embed(self, sdk: SdkRequest) -> Response:
        """Return the vectors of texts in the form of OpenAI's reply, which the embedder and the gateway read."""
        texts = sdk.body.get("input")
        texts = [texts] if isinstance(texts, str) else texts
        if sdk.path != EMBEDDINGS_PATH or not isinstance(texts, list):
            message = f"gemini/{self._name} takes chat requests and texts to embed, not {sdk.path}"
            raise ModelError(Failure("rejected", message))
        # An SDK behind the gateway names the model for embeddings; --embedder names it as this model.
        model = f"models/{sdk.body.get('model') or self._name}"
        fields = {
            "outputDimensionality" if name == "dimensions" else name: value
            for name, value in sdk.body.items()
            if name not in _OF_OPENAI_EMBEDDINGS
        }
        requests = [{**fields, "model": model, "content": {"parts": [{"text": text}]}} for text in texts]
        reply, _ = await self._adapted.post(
            f"/{model}:batchEmbedContents", {"requests": requests}, request_headers(sdk.headers)
        )
        vectors = reply.get("embeddings") if isinstance(reply, dict) else None
        if not isinstance(vectors, list) or not all(isinstance(each, dict) for each in vectors):
            raise bad_reply(self.endpoint, "it has no embeddings")
        items = [
            {"object": "embedding", "index": index, "embedding": each.get("values")}
            for index, each in enumerate(vectors)
        ]
        usage = _usage(reply.get("usageMetadata"))
        answer = {
            "object": "list",
            "data": items,
            "model": self._name,
            "usage": {"prompt_tokens": usage.input if usage else 0},
        }
        return Response("", usage=usage, data=pack_reply(EMBEDDINGS_PATH, answer), address=self.endpoint)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _body(request: Request, seed: int) -> tuple[Body, list[str]]:
    """Return the body of a request, and what it lacks."""
    params = DialectParams(request.params, seed)
    system, messages = split_system(request, params, VENDOR.name)
    body: Body = {"contents": [_content(message) for message in messages]}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    config: dict[str, Any] = {}
    for name, field in _NAMES.items():
        value = params.take(name)
        if value is not None:
            config[field] = value
    limit = params.take_limit()
    if limit is not None:
        config["maxOutputTokens"] = limit
    if stops := params.take_stops():
        config["stopSequences"] = stops[:MAX_STOPS]
    schema = params.take_schema()
    if schema is not None:
        config["responseMimeType"] = "application/json"
        if schema:
            config["responseJsonSchema"] = schema
    effort = params.take_effort(("none", "minimal", "low", "medium", "high"))
    if effort == "none":
        config["thinkingConfig"] = {"thinkingBudget": 0}
    elif effort is not None:
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingLevel": effort.upper()}
    params.leave_out("logit_bias", "n")
    rest = params.rest()
    # The vendor's own parameters may be given for the body or for its `generationConfig`, whose fields come first.
    config |= rest.pop("generationConfig", {})
    return {**body, "generationConfig": config, **rest}, params.adapted


def _content(message: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in content_parts(message, VENDOR.name):
        if not part.image:
            parts.append({"text": part.text})
        elif part.inline:
            media_type, data = part.inline
            parts.append({"inlineData": {"mimeType": media_type, "data": data}})
        else:
            parts.append({"fileData": {"fileUri": part.image}})
    return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}


def _read(reply: Any, where: str, adapted: tuple[str, ...]) -> Response:
    """Read a reply. Raises a ModelError of kind "refusal" if the prompt or the answer was blocked."""
    if not isinstance(reply, dict):
        raise bad_reply(where, "it is not an object")
    usage = _usage(reply.get("usageMetadata"))
    refused = Response("", "content_filter", usage, address=where)
    feedback, candidates = reply.get("promptFeedback"), reply.get("candidates")
    if not candidates and isinstance(feedback, dict) and feedback.get("blockReason"):
        reason = f"the prompt was blocked: {feedback['blockReason']}"
        raise refusal(_with_detail(f"{where}: {reason}", feedback.get("blockReasonMessage")), refused)
    if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
        raise bad_reply(where, "it has no candidates")
    candidate = candidates[0]
    content = candidate.get("content")
    listed = content.get("parts") if isinstance(content, dict) else None
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    text = "".join(str(part.get("text", "")) for part in parts if not part.get("thought"))
    thoughts = "".join(str(part.get("text", "")) for part in parts if part.get("thought"))
    finish = candidate.get("finishReason")
    finish = finish if isinstance(finish, str) else None
    if not text and finish in _BLOCKED:
        reason = f"the answer was blocked: {finish}"
        raise refusal(_with_detail(f"{where}: {reason}", candidate.get("finishMessage")), refused)
    if not text and finish is not None and finish not in _FINISH:
        # OTHER is an unknown reason, and MALFORMED_… is output that Google could not read. Another try may give text.
        raise bad_reply(where, _with_detail(f"it ended with {finish}, without text", candidate.get("finishMessage")))
    return Response(
        text,
        "content_filter" if finish in _BLOCKED else _FINISH.get(finish or "", finish),
        usage,
        reasoning=thoughts.strip(),
        address=where,
        adapted=adapted,
    )


def _with_detail(text: str, detail: Any) -> str:
    return f"{text} ({detail})" if detail else text


def _usage(usage: Any) -> Usage | None:
    """Return the token counts. `candidatesTokenCount` does not contain the tokens of the thoughts.

    `promptTokenCount` contains those from the cache.
    """
    if not isinstance(usage, dict):
        return None
    names = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    prompt, tools, answer, thoughts = (usage.get(name) or 0 for name in names)
    if not all(type(count) is int for count in (prompt, tools, answer, thoughts)):
        return None
    cached = usage.get("cachedContentTokenCount")
    return Usage(
        prompt + tools,
        answer + thoughts,
        cached=min(cached, prompt) if type(cached) is int and cached > 0 else 0,
        reasoning=thoughts,
    )


def connect(connection: Connection) -> GeminiModel:
    """Return the model `gemini/NAME`. Opens no connection yet."""
    return GeminiModel(connection)
