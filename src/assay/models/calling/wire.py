"""A foreign SDK's body as a Request, and a Response as the bytes the SDK is told: always the same ones."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from assay.core.types import Failure, Request, Response

CHAT_PATH = "/chat/completions"
TEXT_PATH = "/completions"
EMBED_PATH = "/embeddings"
JSON = "application/json"
EVENTS = "text/event-stream"
_LIFTED = {CHAT_PATH: "messages", TEXT_PATH: "prompt"}
"""The field that holds the question moves to where our own requests have it. Only these paths take a seed."""
_STATUS = {"timeout": 504, "context_overflow": 400, "rejected": 400}
_encode = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """What goes back to the SDK. Only errors need the header that stops it from retrying what we retried."""

    status: int
    body: bytes
    content_type: str = JSON


def foreign_request(model: str, endpoint: str, path: str, body: dict[str, Any]) -> Request:
    """The SDK's body under its path; the seed is ours to choose, so it is no part of the question."""
    rest, field = dict(body), _LIFTED.get(path)
    if field:
        rest.pop("seed", None)
    messages = rest.pop("messages") if field == "messages" and _is_messages(body.get("messages")) else None
    prompt = rest.pop("prompt") if field == "prompt" and isinstance(body.get("prompt"), str) else None
    params = {"path": path, "body": rest}
    return Request(model=model, endpoint=endpoint, prompt=prompt, messages=messages, params=params)


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def is_foreign(request: Request) -> bool:
    """Whether `foreign_request` made it."""
    return request.params.keys() == {"path", "body"}


def foreign_body(request: Request, name: str, seed: int) -> dict[str, Any]:
    """The body to send: the SDK's own, with the run's model where it names none."""
    body = {**request.params["body"]}
    body["model"] = body.get("model") or name
    if request.params["path"] in _LIFTED:
        body["seed"] = seed
    if request.messages is not None:
        body["messages"] = request.messages
    if request.prompt is not None:
        body["prompt"] = request.prompt
    return body


def kept(path: str, value: Any) -> dict[str, Any]:
    """A JSON reply as `Response.data`: whole, vectors packed where that loses nothing."""
    if path == EMBED_PATH and isinstance(value, dict) and _is_messages(value.get("data")):
        return {"vectors": {**value, "data": [_with_vector(item, _pack) for item in value["data"]]}}
    return {"json": value}


def answered(response: Response) -> Answer:
    """What the SDK is told, from the data alone, so that a replay gives the same bytes."""
    data = response.data
    if "events" in data:
        return Answer(200, data["events"].encode(), EVENTS)
    if "vectors" in data:
        value = data["vectors"]
        return Answer(
            200, _encode({**value, "data": [_with_vector(item, _unpack) for item in value["data"]]})
        )
    return Answer(200, _encode(data["json"]))


def _with_vector(item: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {**item, "embedding": change(item["embedding"])} if "embedding" in item else item


def _pack(vector: Any) -> Any:
    """Most servers compute in 32 bits and print 64: then base64 is a quarter of the size."""
    if not isinstance(vector, list) or not all(type(value) is float for value in vector):
        return vector
    narrow = array("f", vector)
    return {"float32": base64.b64encode(narrow.tobytes()).decode()} if narrow.tolist() == vector else vector


def _unpack(vector: Any) -> Any:
    return array("f", base64.b64decode(vector["float32"])).tolist() if isinstance(vector, dict) else vector


def problem(status: int, message: str, code: str = "gateway") -> Answer:
    """An error in the shape OpenAI's SDKs read."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return Answer(status, _encode({"error": {"message": message, "type": kind, "param": None, "code": code}}))


def failed(failure: Failure) -> Answer:
    """A call that failed for good: with the endpoint's own status where the fault lies in what was asked."""
    status = failure.http if 400 <= failure.http < 500 else _STATUS.get(failure.kind, 502)
    code = "context_length_exceeded" if failure.kind == "context_overflow" else failure.kind
    return problem(status, failure.message, code)
