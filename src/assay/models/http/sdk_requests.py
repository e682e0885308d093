"""Requests and replies of the SDKs that reach the gateway ("foreign": assay does not control them).

Models with an HTTP endpoint get the SDK's request in its own form, whatever dialect of the endpoint it speaks:

    request = read_sdk_request(name, endpoint, "/chat/completions", body)    # is logged; it has `sdk`
    response = await forward(adapted, name, request, request.sdk, seed)      # contains the whole reply
    reply = build_reply(response)                                            # the bytes for the SDK

Models without an endpoint (local/, python/, script/) get an ordinary chat request from `read_chat_request`.
`build_chat_reply` wraps their text in OpenAI's JSON.

A reply to the SDK is built from the logged response alone, so a replay gives the same bytes.
"""

from __future__ import annotations

import base64
import re
from array import array
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import ModelError
from assay.core.hashing import fingerprint
from assay.core.params import merge
from assay.core.types import Failure, Request, Response, SdkRequest
from assay.models.http.adapt import AdaptedEndpoint
from assay.models.http.errors import bad_reply, decode_json, reply_error
from assay.models.http.openai_format import (
    FAILED,
    read_cost,
    read_finish,
    read_reasoning,
    read_usage,
    request_headers,
    request_params,
)
from assay.models.http.wire import HttpResponse

CHAT_PATH = "/chat/completions"
TEXT_PATH = "/completions"
EMBEDDINGS_PATH = "/embeddings"
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
END_OF_STREAM = "[DONE]"

# One encoder for all requests: msgspec.json.encode would create one for each.
_encode = msgspec.json.Encoder().encode


class SdkReply(Struct, frozen=True):
    """An HTTP response to the SDK."""

    status: int
    body: bytes
    content_type: str = JSON


# How the dialects that an SDK may speak spell a profile's parameters, by the end of the path. A name that is not
# listed is the same, "a.b" is the field b of the object a, and "" means that the dialect has no such parameter.
_RESPONSES_NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
    **dict.fromkeys(("seed", "stop", "frequency_penalty", "presence_penalty", "response_format"), ""),
}
_MESSAGES_NAMES = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    **dict.fromkeys(("seed", "frequency_penalty", "presence_penalty", "response_format", "reasoning_effort"), ""),
}
_GOOGLE_NAMES = {
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "top_p": "topP",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
    **dict.fromkeys(("response_format", "reasoning_effort"), ""),
}
_DIALECTS: dict[str, dict[str, str]] = {
    "/completions": {},
    "/responses": _RESPONSES_NAMES,
    "/messages": _MESSAGES_NAMES,
}
# Google's paths name the model, and its bodies have the parameters in an object of their own.
_GOOGLE_PATH = re.compile(r"(.*/models/)[^/:]+(:(?:generateContent|streamGenerateContent))")
_GOOGLE_PARAMS = "generationConfig"


def read_sdk_request(
    model: str, endpoint: str, path: str, body: dict[str, Any], sdk_params: dict[str, Any] | None = None
) -> Request:
    """Return the SDK's request as a Request that `forward` can send.

    Messages and prompt go into the fields of that name. The seed is removed, because the caller chooses it. With
    `sdk_params` the request is for the model of the run, and has these parameters unless it sets them itself.
    """
    rest = dict(body)
    messages = prompt = None
    headers: dict[str, Any] = {}
    if path in (CHAT_PATH, TEXT_PATH):
        rest.pop("seed", None)
    if sdk_params is not None:
        path, rest = _address(path, rest, model.partition("/")[2], request_params(sdk_params))
        headers = sdk_params.get("headers") or {}
    if path == CHAT_PATH and _is_list_of_objects(body.get("messages")):
        messages = rest.pop("messages")
    if path == TEXT_PATH and isinstance(body.get("prompt"), str):
        prompt = rest.pop("prompt")
    sdk = SdkRequest(path, rest, headers)
    return Request(model=model, endpoint=endpoint, prompt=prompt, messages=messages, sdk=sdk)


def _address(path: str, body: dict[str, Any], name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return path and body of a request for the model `name`, with parameters that the body's own override.

    `forward` writes the model's name into a body that has none. Paths that do not generate text, such as /embeddings,
    stay as they are: they need a model of another kind.
    """
    if google := _GOOGLE_PATH.fullmatch(path):
        own = body.get(_GOOGLE_PARAMS) or {}
        config = {**_translate(params, _GOOGLE_NAMES), **own}
        return f"{google[1]}{name}{google[2]}", {**body, _GOOGLE_PARAMS: config}
    names = next((names for end, names in _DIALECTS.items() if path.endswith(end)), None)
    if names is None:
        return path, body
    own = {field: value for field, value in body.items() if field != "model"}
    return path, merge(_translate(params, names), own)


def _translate(params: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return parameters in the words of a dialect."""
    translated: dict[str, Any] = {}
    for name, value in params.items():
        outer, _, inner = names[name].partition(".") if name in names else (name, "", "")
        if inner:
            translated.setdefault(outer, {})[inner] = value
        elif outer:
            translated[outer] = [value] if name == "stop" and isinstance(value, str) else value
    return translated


async def forward(
    adapted: AdaptedEndpoint, name: str, request: Request, sdk: SdkRequest, seed: int, query: str = ""
) -> Response:
    """Send the SDK's request to the model's endpoint with the run's key. Returns the whole reply.

    `sdk` is that of the request, or a part of it. A stream is read to its end first: a reply is logged before the SDK
    sees it, so parts cannot be passed on. `query` is added to the path.
    """
    path = sdk.path
    body = {**sdk.body}
    body["model"] = body.get("model") or name
    # Endpoints may refuse a seed on other paths, such as /embeddings.
    if path in (CHAT_PATH, TEXT_PATH):
        # A seed that is there is that of a repeat of the case; a seed of the SDK itself was taken out before.
        body.setdefault("seed", seed)
    if request.messages is not None:
        body["messages"] = request.messages
    if request.prompt is not None:
        body["prompt"] = request.prompt

    http = adapted.http
    http_response, changes = await adapted.send(path + query, body, request_headers(sdk.headers))
    content_type = http_response.headers.get("Content-Type", "")
    if http_response.status == 200 and content_type.startswith(EVENT_STREAM):
        return replace(_read_stream(path, http_response, http.base_url), adapted=changes)
    reply = decode_json(http_response, http.base_url, adapted.key)
    text, reasoning, finish = "", "", None
    if path in (CHAT_PATH, TEXT_PATH):
        choices = reply.get("choices") if isinstance(reply, dict) else None
        error = reply.get("error") if isinstance(reply, dict) else None
        if not isinstance(choices, list):
            if error:
                raise reply_error(error, http.base_url, adapted.key)
            raise bad_reply(http.base_url, "it has no choices")
        text, reasoning, finish = _read_choices(choices, "message")
        if finish == FAILED:
            raise reply_error(_error_of(choices) or error or "it names no reason", http.base_url, adapted.key)
    return Response(
        text,
        finish,
        read_usage(reply),
        pack_reply(path, reply),
        reasoning=reasoning,
        cost=read_cost(reply),
        address=http.base_url,
        adapted=changes,
    )


def _read_stream(path: str, http_response: HttpResponse, where: str) -> Response:
    """Return the events of a stream as one response. Its `data` has the events themselves, for the SDK."""
    try:
        events = http_response.body.decode()
        # Not splitlines: it also splits at U+2028 and similar characters, which a reply may contain.
        lines = events.split("\n")
        payloads = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        chunks = [msgspec.json.decode(payload) for payload in payloads if payload != END_OF_STREAM]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_reply(where, f"an event of its stream is not JSON: {error}") from None
    if path in (CHAT_PATH, TEXT_PATH) and END_OF_STREAM not in payloads:
        failure = Failure("connection", f"the stream from {where} was cut before its end")
        raise ModelError(failure, retry=True)

    texts: list[str] = []
    reasonings: list[str] = []
    finish = usage = cost = None
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        # A server that fails midway may send the error as an event and then end the stream normally.
        if chunk.get("error"):
            raise reply_error(chunk["error"], where)
        text, reasoning, chunk_finish = _read_choices(chunk.get("choices"), "delta")
        texts.append(text)
        reasonings.append(reasoning)
        finish = chunk_finish or finish
        usage = read_usage(chunk) or usage
        chunk_cost = read_cost(chunk)
        if chunk_cost is not None:
            cost = chunk_cost
    return Response(
        "".join(texts),
        finish,
        usage,
        {"events": events},
        reasoning="".join(reasonings),
        cost=cost,
        address=where,
    )


def _read_choices(choices: Any, field: str) -> tuple[str, str, str | None]:
    """Return text, reasoning and finish reason of the choice with index 0, for the log and the scores.

    Unusual choices are not errors: the SDK may request reply formats that assay does not know.
    """
    if not isinstance(choices, list):
        return "", "", None
    for choice in choices:
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            message = choice.get(field)
            if not isinstance(message, dict):
                message = {"content": choice.get("text")}
            text = message.get("content")
            if not isinstance(text, str):
                text = ""
            return text, read_reasoning(message), read_finish(choice)
    return "", "", None


def _error_of(choices: list[Any]) -> Any:
    """Return the error of a choice that failed, or None."""
    return next((choice["error"] for choice in choices if isinstance(choice, dict) and choice.get("error")), None)


def pack_reply(path: str, reply: Any) -> dict[str, Any]:
    """Return a JSON reply as `Response.data`. Vectors of embeddings are packed to save space in the log."""
    if path == EMBEDDINGS_PATH and isinstance(reply, dict) and _is_list_of_objects(reply.get("data")):
        return {"vectors": _convert_vectors(reply, _pack_vector)}
    return {"json": reply}


def build_reply(response: Response) -> SdkReply:
    """Return the reply to a forwarded request, as the endpoint sent it."""
    data = response.data
    if "events" in data:
        return SdkReply(200, data["events"].encode(), EVENT_STREAM)
    if "vectors" in data:
        return SdkReply(200, _encode(_convert_vectors(data["vectors"], _unpack_vector)))
    return SdkReply(200, _encode(data["json"]))


def _convert_vectors(reply: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return an embeddings reply in which `convert` has replaced each vector."""
    items = []
    for item in reply["data"]:
        if "embedding" in item:
            items.append({**item, "embedding": convert(item["embedding"])})
        else:
            items.append(item)
    return {**reply, "data": items}


def _pack_vector(vector: Any) -> Any:
    """Return a vector as base64 of 32-bit floats if that loses no precision, else unchanged.

    Most servers compute in 32 bits but print the digits of 64. Base64 then takes a quarter of the space.
    """
    if not isinstance(vector, list) or not all(type(number) is float for number in vector):
        return vector
    floats = array("f", vector)
    if floats.tolist() != vector:
        return vector
    return {"float32": base64.b64encode(floats.tobytes()).decode()}


def _unpack_vector(packed: Any) -> Any:
    if isinstance(packed, dict):
        return array("f", base64.b64decode(packed["float32"])).tolist()
    return packed


class UnsupportedRequest(Exception):
    """The SDK requests a feature that a model without an endpoint lacks. The text names it."""


# Fields of a request body that are not generation parameters.
_NO_PARAMETERS = frozenset({"model", "messages", "seed", "stream", "stream_options", "n"})


def read_chat_request(
    model: str, endpoint: str, body: dict[str, Any], sdk_params: dict[str, Any] | None = None
) -> Request:
    """Return a chat request in the form that suites use, so that equal requests share logged replies.

    It has the parameters of `sdk_params` that the SDK does not set itself.
    """
    messages = body.get("messages")
    if not _is_list_of_objects(messages):
        raise UnsupportedRequest("the body has no list of messages")
    if body.get("tools") or body.get("functions"):
        raise UnsupportedRequest(f"{model} answers with text and cannot call tools")
    if body.get("n") not in (None, 1):
        raise UnsupportedRequest(f"{model} returns one choice per request; remove n")
    params = {name: value for name, value in body.items() if name not in _NO_PARAMETERS and value is not None}
    if "max_completion_tokens" in params:
        params["max_tokens"] = params.pop("max_completion_tokens")
    params = merge(sdk_params or {}, params)
    if isinstance(params.get("stop"), str):
        params["stop"] = [params["stop"]]
    return Request(model=model, endpoint=endpoint, messages=messages, params=params)


def build_chat_reply(request: Request, response: Response, body: dict[str, Any]) -> SdkReply:
    """Return a response as OpenAI's JSON, or as a stream of one event if the SDK requested a stream.

    `created` is 0 and the id is a hash, so that a replay gives the same bytes.
    """
    stream = bool(body.get("stream"))
    choice = {
        "index": 0,
        "delta" if stream else "message": {"role": "assistant", "content": response.text},
        "finish_reason": response.finish or "stop",
        "logprobs": None,
    }
    reply: dict[str, Any] = {
        "id": f"chatcmpl-{fingerprint([request, response])}",
        "object": "chat.completion.chunk" if stream else "chat.completion",
        "created": 0,
        "model": request.model.partition("/")[2],
        "choices": [choice],
    }
    if response.usage:
        reply["usage"] = {
            "prompt_tokens": response.usage.input,
            "completion_tokens": response.usage.output,
            "total_tokens": response.usage.input + response.usage.output,
        }
        if response.usage.reasoning:
            reply["usage"]["completion_tokens_details"] = {"reasoning_tokens": response.usage.reasoning}
    if stream:
        events = b"data: %b\n\ndata: %b\n\n" % (_encode(reply), END_OF_STREAM.encode())
        return SdkReply(200, events, EVENT_STREAM)
    return SdkReply(200, _encode(reply))


def build_model_list(name: str) -> SdkReply:
    """Return the reply to GET /models: a list of one model."""
    model = {"id": name, "object": "model", "created": 0, "owned_by": "assay"}
    return SdkReply(200, _encode({"object": "list", "data": [model]}))


def build_error(status: int, message: str, code: str = "gateway") -> SdkReply:
    """Return an error in OpenAI's format, which its SDKs raise as an exception."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return SdkReply(status, _encode({"error": error}))


def build_failure(failure: Failure) -> SdkReply:
    """Return the error for a call that failed after all retries.

    A status of the endpoint that blames the request (4xx) is passed on. Other failures get a status by kind.
    """
    status = failure.http
    if not 400 <= status < 500:
        status = {"timeout": 504, "context_overflow": 400, "rejected": 400}.get(failure.kind, 502)
    # Agent frameworks recognise an overflow by OpenAI's code, and shorten their prompt.
    code = "context_length_exceeded" if failure.kind == "context_overflow" else failure.kind
    return build_error(status, failure.message, code)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
