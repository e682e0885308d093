"""Google's dialect: generateContent and batchEmbedContents of the Gemini API."""

from __future__ import annotations

import re
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
    vector,
)

FIELDS = frozenset(
    [
        "contents",
        "systemInstruction",
        "generationConfig",
        "safetySettings",
        "tools",
        "toolConfig",
        "cachedContent",
        "serviceTier",
        "store",
    ]
)
CONFIG_FIELDS = frozenset(
    [
        "stopSequences",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "candidateCount",
        "maxOutputTokens",
        "temperature",
        "topP",
        "topK",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "enableEnhancedCivicAnswers",
        "speechConfig",
        "thinkingConfig",
        "mediaResolution",
    ]
)
THINKING_FIELDS = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
TYPE = "type.googleapis.com/google.rpc."


def error(message: str, code: int = 400, status: str = "INVALID_ARGUMENT", *details: Any) -> Any:
    """The body of an error."""
    return {"error": {"code": code, "message": message, "status": status, "details": [*details]}}


def _unknown(name: str, place: str = "") -> Result:
    text = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
    violation = {"@type": f"{TYPE}BadRequest", "fieldViolations": [{"description": text}]}
    return 400, error(text, 400, "INVALID_ARGUMENT", violation)


class Gemini(Dialect):
    """`POST /v1/models/NAME:generateContent`. `name` takes a budget of reasoning tokens, `reasoner` a level."""

    provider = "gemini"
    name = "gemini-2.5-flash"
    reasoner = "gemini-3-pro-preview"
    embeds = True
    faults: ClassVar[dict[str, Result]] = {
        FILTERED: (
            200,
            {
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
                "modelVersion": "gemini-2.5-flash",
                "responseId": "r1",
            },
        ),
        OVERFLOW: (
            400,
            error("The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
        ),
        LIMITED: (
            429,
            error(
                "You exceeded your current quota, please check your plan and billing details.",
                429,
                "RESOURCE_EXHAUSTED",
                {"@type": f"{TYPE}RetryInfo", "retryDelay": "0.01s"},
            ),
        ),
        BROKEN: (400, error("Request contains an invalid argument.")),
    }

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, path, field or role, or for a parameter that the model rejects."""
        if seen.headers.get("x-goog-api-key") != KEY:
            reason = {"@type": f"{TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            return 400, error("API key not valid. Please pass a valid API key.", 400, "INVALID_ARGUMENT", reason)
        path = re.fullmatch(r"/v1(?:beta)?/models/([\w.-]+):(generateContent|batchEmbedContents)", seen.path)
        if path is None:
            return 404, error("Not Found", 404, "NOT_FOUND")
        if path[2] == "batchEmbedContents":
            (name,) = {request["model"] for request in seen.body["requests"]}
            return None if name == f"models/{path[1]}" else (400, error("model must match the path"))
        if path[1] not in (self.name, self.reasoner):
            text = f"models/{path[1]} is not found for API version v1, or is not supported for generateContent."
            return 404, error(text, 404, "NOT_FOUND")
        for name in seen.body:
            if name not in FIELDS:
                return _unknown(name)
        if {content.get("role") for content in seen.body["contents"]} - {"user", "model"}:
            return 400, error("Please use a valid role: user, model.")
        config = seen.body.get("generationConfig", {})
        for name in config:
            if name not in CONFIG_FIELDS:
                return _unknown(name, " at 'generation_config'")
        if len(config.get("stopSequences", ())) > 5:
            return 400, error("stop_sequences must have at most 5 elements")
        thinking = camel(config.get("thinkingConfig", {}))
        for name in thinking:
            if name not in THINKING_FIELDS:
                return _unknown(name, " at 'generation_config.thinking_config'")
        if path[1] == self.name and "thinkingLevel" in thinking:
            return 400, error("Thinking level is not supported for this model.")
        return None

    def messages(self, body: dict[str, Any]) -> Messages:
        """Return the contents in OpenAI's form."""
        system = body.get("systemInstruction")
        told = [{"role": "system", "content": _text(system)}] if system else []
        roles = {"model": "assistant", "user": "user"}
        return [*told, *({"role": roles[each["role"]], "content": _text(each)} for each in body["contents"])]

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a candidate, with its thoughts as a part of their own."""
        thought = [{"text": reply.reasoning, "thought": True}] if reply.reasoning else []
        parts = [*thought, {"text": reply.text}]
        thoughts = tokens(reply.reasoning) if reply.reasoning else 0
        return {
            "candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 7,
                "candidatesTokenCount": tokens(reply.text),
                "thoughtsTokenCount": thoughts,
                "totalTokenCount": 7 + tokens(reply.text) + thoughts,
            },
            "modelVersion": self.name,
            "responseId": "r1",
        }

    def fault(self, name: str) -> Result:
        """Return a fault. A refusal is a candidate without content."""
        if name == REFUSED:
            rating = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
            candidate = {"finishReason": "SAFETY", "index": 0, "safetyRatings": [rating]}
            return 200, {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 7}}
        return self.faults[name]

    def vectors(self, seen: Seen) -> Any:
        """Return embeddings in the order of the texts."""
        if not seen.path.endswith(":batchEmbedContents"):
            return None
        return {"embeddings": [{"values": vector(_text(request["content"]))} for request in seen.body["requests"]]}


def camel(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields under the names of the documentation. The API also takes `thinking_level`, as Google's SDK does."""
    return {re.sub(r"_(\w)", lambda match: match[1].upper(), name): value for name, value in fields.items()}


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in content["parts"])
