"""Translates requests from OpenAI's words, which all suites use, into the dialect of another vendor.

    params = DialectParams(request.params, seed)
    system, messages = split_system(request, params, "Anthropic")
    body = {"model": name, "max_tokens": params.take_limit() or 16_000}
    params.leave_out("seed")                 # is recorded: "no seed"
    body |= params.rest()                    # the vendor's own parameters, unchanged

What a dialect cannot say is left out, and `Response.adapted` tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.roles import LIKELIHOOD
from assay.core.types import Failure, Request

# Spellings of the reasoning effort, from none to most.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class DialectParams:
    """The parameters of one request. A provider takes those that it translates; the rest goes out unchanged.

    `adapted` has what the dialect cannot say, such as "no seed". A parameter with the value None counts as absent.
    """

    def __init__(self, params: dict[str, Any], seed: int) -> None:
        self._left = {"seed": seed, **params}
        self._extra_body: dict[str, Any] = self._left.pop("extra_body", None) or {}
        self._left.pop("headers", None)
        self.adapted: list[str] = []

    def take(self, name: str) -> Any:
        """Return a parameter, or None. It is then no longer part of `rest`."""
        return self._left.pop(name, None)

    def take_limit(self) -> int | None:
        """Return the most tokens that the reply may have. OpenAI has two names for it."""
        limit: int | None = self.take("max_tokens")
        newer: int | None = self.take("max_completion_tokens")
        return limit if newer is None else newer

    def take_stops(self) -> list[str]:
        """Return the stop strings. `suites/toolkit/prompt.py` cuts replies at those that a vendor does not take."""
        stops = self.take("stop")
        return [stops] if isinstance(stops, str) else [*(stops or ())]

    def take_schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of `response_format`. Empty for any JSON, None for any text."""
        wanted = self.take("response_format")
        if not isinstance(wanted, dict) or wanted.get("type") == "text":
            return None
        schema = (wanted.get("json_schema") or {}).get("schema")
        return schema if isinstance(schema, dict) else {}

    def take_effort(self, offered: tuple[str, ...]) -> str | None:
        """Return the reasoning effort: the nearest one that the vendor offers. A nearest one is recorded."""
        wanted = self.take("reasoning_effort")
        if wanted is None or wanted in offered or wanted not in EFFORTS:
            return wanted if wanted is None else str(wanted)
        place = EFFORTS.index(wanted)
        nearest = min(offered, key=lambda effort: abs(EFFORTS.index(effort) - place))
        self.adapted.append(f"reasoning_effort {nearest} instead of {wanted}")
        return nearest

    def leave_out(self, *names: str) -> None:
        """Drop parameters that the dialect lacks, and record those that the request has."""
        self.adapted += [f"no {name}" for name in names if self.take(name) is not None]

    def has_functions(self) -> bool:
        """Return whether the request has tools in the form of OpenAI's chat completions. Others have their own."""
        tools = self._left.get("tools")
        items = tools if isinstance(tools, list) else []
        is_function = any(isinstance(tool, dict) and "function" in tool for tool in items)
        return is_function or bool(self._left.get("functions"))

    def rest(self) -> dict[str, Any]:
        """Return the parameters that nobody took, and the fields of `extra_body`, which override them."""
        return {name: value for name, value in self._left.items() if value is not None} | self._extra_body


class ContentPart(NamedTuple):
    """A piece of a message: a text, or an image as a URL or a `data:` URL."""

    text: str = ""
    image: str = ""

    @property
    def inline(self) -> tuple[str, str] | None:
        """Media type and base64 of an image in a `data:` URL, else None."""
        head, comma, data = self.image.partition(",")
        if not comma or not head.startswith("data:") or not head.endswith(";base64"):
            return None
        return head.removeprefix("data:").removesuffix(";base64"), data


def split_system(request: Request, params: DialectParams, vendor: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt and the other messages. System messages further down move to the front.

    System messages alone become a message of the user, because no vendor takes a conversation without one;
    `params.adapted` tells. Raises ModelError for what another vendor's chat model cannot be sent: likelihoods, tools.
    """
    if request.continuation is not None:
        raise ModelError(Failure("rejected", f"chat models cannot do {LIKELIHOOD}"))
    if params.has_functions():
        raise ModelError(
            Failure(
                "rejected",
                f"tools in OpenAI's form cannot be sent to {vendor}. Remove them, or write the vendor's own tools into "
                "extra_body",
            )
        )
    if request.messages is None:
        return "", [{"role": "user", "content": request.prompt or ""}]
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        role = message.get("role")
        if role in ("system", "developer"):
            system += [part.text for part in content_parts(message, vendor)]
        elif role in ("user", "assistant") and not message.get("tool_calls"):
            messages.append(message)
        else:
            what = "calls of tools" if role == "assistant" else f"messages with the role {role!r}"
            raise ModelError(Failure("rejected", f"{what} cannot be sent to {vendor}"))
    if system and not messages:
        params.adapted.append("user instead of system role")
        return "", [{"role": "user", "content": "\n\n".join(system)}]
    return "\n\n".join(system), messages


def content_parts(message: dict[str, Any], vendor: str) -> Iterator[ContentPart]:
    """Yield the parts of a message, whose content is a text, null, or a list of parts as OpenAI has them.

    A vendor that takes only texts must refuse a part with an `image`: its `text` is empty.
    """
    content = message.get("content")
    if content is None or isinstance(content, str):
        yield ContentPart(content or "")
        return
    for part in content:
        image = part.get("image_url")
        if part.get("type") == "text":
            yield ContentPart(str(part.get("text", "")))
        elif part.get("type") == "image_url" and image:
            yield ContentPart(image=image["url"] if isinstance(image, dict) else str(image))
        else:
            message_text = f"a part of the type {part.get('type')!r} cannot be sent to {vendor}"
            raise ModelError(Failure("rejected", message_text))


def is_plain(message: dict[str, Any]) -> bool:
    """Return whether the content of a message is a text."""
    return isinstance(message.get("content"), str)
