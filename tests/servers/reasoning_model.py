"""An endpoint that rejects what reasoning models reject, in the words of OpenAI, one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from servers.loopback import Answer, chat

UNSUPPORTED = "Unsupported parameter: '{0}' is not supported with this model."


def rejection(body: dict[str, Any]) -> dict[str, Any] | None:
    """The error body for the first thing that the model does not take, or None."""
    if any(message["role"] == "system" for message in body["messages"]):
        text = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
        return error(text, "messages[0].role", "unsupported_value")
    if "max_tokens" in body:
        text = UNSUPPORTED.format("max_tokens") + " Use 'max_completion_tokens' instead."
        return error(text, "max_tokens", "unsupported_parameter")
    if body.get("temperature", 1) != 1:
        text = (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
            "Only the default (1) value is supported."
        )
        return error(text, "temperature", "unsupported_value")
    if "seed" in body:
        return error("Unrecognized request argument supplied: seed", None, None)
    if "stop" in body:
        return error(UNSUPPORTED.format("stop"), "stop", "unsupported_parameter")
    return None


def error(message: str, parameter: str | None, code: str | None) -> dict[str, Any]:
    """OpenAI's error body."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}}


def reasoning_model(answer: Callable[[dict[str, Any]], str]) -> Answer:
    """Answers with the text of `answer(body)`, once the request has nothing left to reject."""

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        rejected = rejection(body)
        if rejected:
            return 400, rejected
        completion = chat(answer(body))
        completion["usage"]["completion_tokens_details"] = {"reasoning_tokens": 1}
        return 200, completion

    return reply
