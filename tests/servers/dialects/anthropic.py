"""Anthropic's dialect: the Messages API, in both of its versions."""

from __future__ import annotations

from typing import Any, ClassVar

from servers.dialects import (
    BROKEN,
    FILTERED,
    KEY,
    LIMITED,
    OVERFLOW,
    REFUSED,
    Dialect,
    Messages,
    Reply,
    Result,
    Seen,
    tokens,
)

FIELDS = frozenset(
    [
        "cache_control",
        "container",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    ]
)
SAMPLING = ("temperature", "top_p", "top_k")
VERSIONS = ("2023-06-01", "2026-10-21")


def error(message: str, kind: str = "invalid_request_error") -> Any:
    """The body of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


class Anthropic(Dialect):
    """`POST /v1/messages`. `name` takes a temperature and an effort, `reasoner` takes no temperature."""

    provider = "anthropic"
    name = "claude-sonnet-4-6"
    reasoner = "claude-opus-4-7"
    budgeted = "claude-haiku-4-5"
    """A model that takes a budget of reasoning tokens, and no effort."""
    faults: ClassVar[dict[str, Result]] = {
        FILTERED: (400, error("Output blocked by content filtering policy")),
        OVERFLOW: (400, error("prompt is too long: 210000 tokens > 200000 maximum")),
        LIMITED: (529, error("Overloaded", "overloaded_error")),
        BROKEN: (400, error("The request body is not valid JSON")),
    }

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, version, field or role, or for a parameter that the model rejects."""
        body = seen.body
        if KEY not in (
            seen.headers.get("x-api-key"),
            seen.headers.get("authorization", "").removeprefix("Bearer "),
        ):
            return 401, error("invalid x-api-key", "authentication_error")
        version = seen.headers.get("anthropic-version")
        if version not in VERSIONS:
            return 400, error("anthropic-version: header is required")
        if seen.path != "/v1/messages":
            return 404, error("Not Found", "not_found_error")
        known = FIELDS if version == VERSIONS[1] else FIELDS | {*SAMPLING}
        for name in body:
            if name not in known:
                return 400, error(f"{name}: Extra inputs are not permitted")
        for name in ("max_tokens", "messages", "model"):
            if name not in body:
                return 400, error(f"{name}: Field required")
        for number, message in enumerate(body["messages"]):
            if message["role"] not in ("user", "assistant"):
                return 400, error(f"messages.{number}.role: Input should be 'user' or 'assistant'")
            if not message["content"]:
                return 400, error(f"messages.{number}: all messages must have non-empty content")
        if any(not stop.strip() for stop in body.get("stop_sequences", ())):
            return 400, error("stop_sequences: each stop sequence must contain non-whitespace")
        return self._model_problem(body)

    def _model_problem(self, body: dict[str, Any]) -> Result | None:
        if body["model"] == self.reasoner:
            for name in SAMPLING:
                if name in body:
                    return 400, error(f"`{name}` is deprecated for this model.")
        config = body.get("output_config", {})
        thinking = body.get("thinking", {"type": "disabled"})
        if body["model"] == self.budgeted:
            if "effort" in config:
                return 400, error("This model does not support the effort parameter.")
            if thinking["type"] == "adaptive":
                return 400, error("adaptive thinking is not supported on this model")
        if thinking["type"] == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            return 400, error("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if thinking["type"] != "disabled" and body.get("temperature", 1) != 1:
            return 400, error("`temperature` may only be set to 1 when thinking is enabled.")
        if not _is_closed((config.get("format") or {}).get("schema")):
            text = "output_config.format.schema: For 'object' type, 'additionalProperties' must be set to false"
            return 400, error(text)
        return None

    def messages(self, body: dict[str, Any]) -> Messages:
        """Return the system prompt as the first message."""
        system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        return [*system, *body["messages"]]

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a message, with a block of thinking before the text."""
        thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": "s"}] if reply.reasoning else []
        return self._message([*thinking, {"type": "text", "text": reply.text}], "end_turn", reply)

    def fault(self, name: str) -> Result:
        """Return a fault. A refusal is a reply whose text is to be discarded."""
        if name == REFUSED:
            message = self._message([{"type": "text", "text": "Rex, but"}], "refusal", Reply())
            why = "This request could enable cyber harm."
            message["stop_details"] = {"type": "refusal", "category": "cyber", "explanation": why}
            return 200, message
        return self.faults[name]

    def _message(self, content: list[dict[str, Any]], stop_reason: str, reply: Reply) -> dict[str, Any]:
        thought = tokens(reply.reasoning) if reply.reasoning else 0
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.name,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 5,
                "cache_creation_input_tokens": 20,
                "cache_read_input_tokens": 300,
                "output_tokens": tokens(reply.text) + thought,
                "output_tokens_details": {"thinking_tokens": thought},
            },
        }


def _is_closed(schema: Any) -> bool:
    """Return whether all objects of a schema forbid other keys."""
    if isinstance(schema, list):
        return all(map(_is_closed, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    return all(map(_is_closed, schema.values()))
