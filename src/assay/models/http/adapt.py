"""Adapts requests to an endpoint that rejects some of their parameters, once for each endpoint and run.

    adapted = AdaptedEndpoint(http)
    reply, changes = await adapted.post("/chat/completions", body)    # changes: ("no temperature",)

Reasoning models reject `temperature`, want `max_completion_tokens` instead of `max_tokens`, and name the system role
`developer`. The endpoint's own error tells which. The first rejected request is changed and sent again, and so is every
later one. A call's key in the log is the request before the change, so a continued run finds its replies. A provider of
another dialect has its own list of changes.

A parameter that the user chose for its effect on the answer, such as `reasoning_effort`, is never left out: there the
error is the better answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.envfile import COMMON_KEY
from assay.models.http.client import HttpEndpoint
from assay.models.http.errors import decode_json, status_error
from assay.models.http.wire import HttpResponse

# Words with which an endpoint says that it does not take a parameter or its value, as opposed to a value that is only
# out of range ("temperature must be at most 2"), which is the user's mistake.
_NOT_TAKEN = re.compile(
    r"unsupported|not supported|does not support|unrecognized|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|extra fields|no longer|deprecated|only the default|cannot both be|not a valid parameter"
    r"|cannot find field|may only be set|not available|not enabled|can't disable|cannot be disabled",
    re.IGNORECASE,
)
# One encoder for all requests: msgspec.json.encode would create one for each.
_encode = msgspec.json.Encoder().encode
Body = dict[str, Any]


class RequestChange(Struct, frozen=True):
    """One way to change a request. Possible if `parameter` is a key of the body and `apply` changes the body."""

    parameter: str
    text: str
    """What is recorded with each reply, such as `no temperature`."""
    apply: Callable[[Body], Body]
    named: str = ""
    """A regular expression for the words that name the parameter in the endpoint's error. Empty means its name."""

    @property
    def pattern(self) -> str:
        """The expression to search for: `named`, or the parameter as a word of its own."""
        return self.named or rf"(?<![\w.-]){re.escape(self.parameter)}(?![\w-])"


def without(parameter: str) -> RequestChange:
    """Return the change that leaves a parameter out.

    It reports `no {parameter}`. If the vendor's name is not the one that users write, report theirs with a
    RequestChange, as in `RequestChange("heat", "no temperature", ...)`.
    """

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
        {**message, "role": "developer"} if message.get("role") == "system" else message for message in body["messages"]
    ]
    return {**body, "messages": messages}


DEVELOPER = RequestChange(
    "messages",
    "developer instead of system role",
    _developer_role,
    r"(?i)messages\[\d+\]\.role|['\"`]?system['\"`]? role|role ['\"`]?system\b",
)
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
    """An endpoint of one model, with the changes that its requests need. All requests of a run share them.

    `key` is the variable with the API key, for the message about a wrong key.
    """

    def __init__(
        self, http: HttpEndpoint, changes: tuple[RequestChange, ...] = OPENAI_CHANGES, key: str = COMMON_KEY
    ) -> None:
        self.http = http
        self.key = key
        self._possible = changes
        self._learned: tuple[RequestChange, ...] = ()

    async def post(
        self, path: str, body: Body, headers: Mapping[str, str] | None = None
    ) -> tuple[Any, tuple[str, ...]]:
        """Send a request. Returns the JSON of the reply, and the changes that were made to this request.

        Raises ModelError, also for a rejected request that no known change can help.
        """
        response, texts = await self.send(path, body, headers)
        return decode_json(response, self.http.base_url, self.key), texts

    async def send(
        self, path: str, body: Body, headers: Mapping[str, str] | None = None
    ) -> tuple[HttpResponse, tuple[str, ...]]:
        """Send a request as `post` does. Returns the response as it is, whatever its status.

        A change is kept for later requests only if it helped. An odd error about one request, which may quote its text,
        must not change all others.
        """
        learned = tried = self._learned
        while True:
            changed, texts = _apply(tried, body) if tried else (body, ())
            response = await self.http.post(path, _encode(changed), headers)
            if response.status not in (400, 422):
                if response.status == 200 and tried is not learned:
                    self._learned += tuple(change for change in tried if change not in self._learned)
                return response, texts
            change = self._find_change(response, changed)
            if change is None or change in tried:
                return response, texts
            tried += (change,)

    def _find_change(self, response: HttpResponse, body: Body) -> RequestChange | None:
        failure = status_error(response, self.http.base_url).failure
        return find_change(self._possible, failure.message, body) if failure.kind == "rejected" else None


def find_change(changes: tuple[RequestChange, ...], message: str, body: Body) -> RequestChange | None:
    """Return the change that an error message asks for, or None.

    The message must name a parameter of the body and say that it is not taken. Of several names the first counts:
    OpenAI's message about `max_tokens` also names `max_completion_tokens`.
    """
    if not _NOT_TAKEN.search(message):
        return None
    named: list[tuple[int, RequestChange]] = []
    for change in changes:
        if change.parameter in body:
            match = re.search(change.pattern, message)
            if match and change.apply(body) != body:
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
