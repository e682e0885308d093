"""Adapts requests to an endpoint that rejects some of their parameters, once for each endpoint and run.

    adapted = AdaptedEndpoint(http)
    reply, changes = await adapted.post("/chat/completions", body)    # changes: ("no temperature",)

Reasoning models reject `temperature`, want `max_completion_tokens` instead of `max_tokens`, and name the system role
`developer`. The endpoint's own error tells which. The first rejected request is changed and sent again, and so is every
later one. A call's key in the log is the request before the change, so a continued run finds its replies.

A parameter that the user chose for its effect on the answer, such as `reasoning_effort`, is never left out: there the
error is the better answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.models.calling.http_client import HttpEndpoint
from assay.models.calling.http_errors import decode_json, status_error
from assay.models.calling.http_wire import HttpResponse

# Words with which an endpoint says that it does not take a parameter or its value, as opposed to a value that is only
# out of range ("temperature must be at most 2"), which is the user's mistake.
_NOT_TAKEN = re.compile(
    r"unsupported|not supported|does not support|unrecognized|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|extra fields|no longer|deprecated|only the default|cannot both be|not a valid parameter",
    re.IGNORECASE,
)
_SYSTEM_ROLE = re.compile(
    r"messages\[\d+\]\.role|['\"`]?system['\"`]? role|role ['\"`]?system\b", re.IGNORECASE
)
# One encoder for all requests: msgspec.json.encode would create one for each.
_encode = msgspec.json.Encoder().encode
Body = dict[str, Any]


class RequestChange(NamedTuple):
    """One way to change a request. `parameter` is the key of the body that the endpoint's error names."""

    parameter: str
    text: str
    """What is recorded with each reply, such as `no temperature`."""
    apply: Callable[[Body], Body]


def without(parameter: str) -> RequestChange:
    """Return the change that leaves a parameter out."""

    def apply(body: Body) -> Body:
        return {key: value for key, value in body.items() if key != parameter}

    return RequestChange(parameter, f"no {parameter}", apply)


def renamed(parameter: str, name: str) -> RequestChange:
    """Return the change that sends a parameter under another name."""

    def apply(body: Body) -> Body:
        return {name if key == parameter else key: value for key, value in body.items()}

    return RequestChange(parameter, f"{name} instead of {parameter}", apply)


def _developer_role(body: Body) -> Body:
    messages = [
        {**message, "role": "developer"} if message.get("role") == "system" else message
        for message in body["messages"]
    ]
    return {**body, "messages": messages}


DEVELOPER = RequestChange("messages", "developer instead of system role", _developer_role)
OPENAI_CHANGES = (
    renamed("max_tokens", "max_completion_tokens"),
    renamed("max_completion_tokens", "max_tokens"),
    without("temperature"),
    without("top_p"),
    without("seed"),
    without("stop"),
    DEVELOPER,
)


class AdaptedEndpoint:
    """An endpoint of one model, with the changes that its requests need. All requests of a run share them."""

    def __init__(self, http: HttpEndpoint, changes: tuple[RequestChange, ...] = OPENAI_CHANGES) -> None:
        self.http = http
        self._possible = changes
        self._learned: tuple[RequestChange, ...] = ()

    async def post(
        self, path: str, body: Body, headers: Mapping[str, str] | None = None
    ) -> tuple[Any, tuple[str, ...]]:
        """Send a request. Returns the JSON of the reply, and the changes that were made to this request.

        Raises ModelError, also for a rejected request that no known change can help.
        """
        response, texts = await self.send(path, body, headers)
        return decode_json(response, self.http.base_url), texts

    async def send(
        self, path: str, body: Body, headers: Mapping[str, str] | None = None
    ) -> tuple[HttpResponse, tuple[str, ...]]:
        """Send a request as `post` does. Returns the response as it is, whatever its status."""
        while True:
            learned = self._learned
            changed, texts = _apply(learned, body) if learned else (body, ())
            response = await self.http.post(path, _encode(changed), headers)
            if response.status not in (400, 422):
                return response, texts
            # Another request may have learned the same while this one was in flight.
            if self._learned is learned and not self._learn(response, changed):
                return response, texts

    def _learn(self, response: HttpResponse, body: Body) -> bool:
        """Remember the change that an error asks for. Returns False if there is none."""
        failure = status_error(response, self.http.base_url).failure
        if failure.kind != "rejected":
            return False
        change = find_change(self._possible, failure.message, body)
        # max_tokens and max_completion_tokens would replace each other without end.
        if change is None or change in self._learned:
            return False
        self._learned += (change,)
        return True


def find_change(changes: tuple[RequestChange, ...], message: str, body: Body) -> RequestChange | None:
    """Return the change that an error message asks for, or None.

    The message must name a key of the body as a word of its own and say that it is not taken. Of several names the
    first counts: OpenAI's message about `max_tokens` also names `max_completion_tokens`.
    """
    if not _NOT_TAKEN.search(message):
        return None
    named: list[tuple[int, RequestChange]] = []
    for change in changes:
        if change is DEVELOPER:
            match = _SYSTEM_ROLE.search(message)
            if match and any(each.get("role") == "system" for each in body.get("messages") or ()):
                named.append((match.start(), change))
        elif change.parameter in body:
            match = re.search(rf"(?<![\w.-]){re.escape(change.parameter)}(?![\w-])", message)
            if match:
                named.append((match.start(), change))
    return min(named, key=lambda each: each[0])[1] if named else None


def _apply(changes: tuple[RequestChange, ...], body: Body) -> tuple[Body, tuple[str, ...]]:
    texts: list[str] = []
    for change in changes:
        if change.parameter in body:
            changed = change.apply(body)
            if changed != body:
                body = changed
                texts.append(change.text)
    return body, tuple(texts)
