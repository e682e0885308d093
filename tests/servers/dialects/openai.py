"""OpenAI's dialects: chat completions, as Azure and the servers of open models speak them too, and Responses."""

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

CHAT_FIELDS = frozenset(
    [
        "messages",
        "model",
        "audio",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
    ]
)
RESPONSES_FIELDS = frozenset(
    [
        "background",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
ROLES = ("system", "developer", "user", "assistant", "tool")


def error(
    message: str, code: str | int | None = None, param: str | None = None, kind: str = "invalid_request_error"
) -> Any:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


class OpenAIChat(Dialect):
    """`POST /v1/chat/completions` and `/v1/embeddings`."""

    provider = "openai"
    name = "gpt-4o-mini"
    reasoner = "o4-mini"
    path = "/v1"
    embeds = True
    faults: ClassVar[dict[str, Result]] = {
        FILTERED: (
            400,
            error(
                "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again "
                "with a different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
                "invalid_prompt",
            ),
        ),
        OVERFLOW: (
            400,
            error(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
                "Please reduce the length of the messages.",
                "context_length_exceeded",
                "messages",
            ),
        ),
        LIMITED: (429, error("Rate limit reached for requests", "rate_limit_exceeded", kind="requests")),
        BROKEN: (400, error("We could not parse the JSON body of your request.")),
    }

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, path, field, role, or for a parameter that reasoning models reject."""
        if seen.headers.get("authorization") != f"Bearer {KEY}":
            return 401, error("Incorrect API key provided: key****0123.", "invalid_api_key")
        if seen.path == "/v1/embeddings":
            return None
        if seen.path != "/v1/chat/completions":
            return 404, error(f"Invalid URL (POST {seen.path})")
        return self._chat_problem(seen.body)

    def _chat_problem(self, body: dict[str, Any]) -> Result | None:
        for name in body:
            if name not in CHAT_FIELDS:
                return 400, error(f"Unrecognized request argument supplied: {name}")
        for number, message in enumerate(body["messages"]):
            if message.get("role") not in ROLES:
                text = f"Invalid value: '{message.get('role')}'. Supported values are: 'system', 'assistant', 'user'."
                return 400, error(text, "invalid_value", f"messages[{number}].role")
        if len(body.get("stop") or ()) > 4:
            return 400, error("Invalid 'stop': array too long.", "array_above_max_length", "stop")
        if not body.get("model", "").startswith(self.reasoner):
            if "reasoning_effort" in body:
                return 400, error("Unrecognized request argument supplied: reasoning_effort")
            return None
        if "max_tokens" in body:
            text = "Unsupported parameter: 'max_tokens' is not supported with this model."
            text += " Use 'max_completion_tokens' instead."
            return 400, error(text, "unsupported_parameter", "max_tokens")
        if body.get("temperature", 1) != 1:
            text = f"Unsupported value: 'temperature' does not support {body['temperature']} with this model."
            text += " Only the default (1) value is supported."
            return 400, error(text, "unsupported_value", "temperature")
        if "stop" in body:
            text = "Unsupported parameter: 'stop' is not supported with this model."
            return 400, error(text, "unsupported_parameter", "stop")
        return None

    def messages(self, body: dict[str, Any]) -> Messages:
        """Return the messages as they are."""
        return [*body["messages"]]

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
        prompt = sum(tokens(str(each["content"])) for each in body["messages"])
        thought = tokens(reply.reasoning) if reply.reasoning else 0
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", self.name),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": tokens(reply.text) + thought,
                "total_tokens": prompt + tokens(reply.text) + thought,
                "completion_tokens_details": {"reasoning_tokens": thought},
            },
        }

    def fault(self, name: str) -> Result:
        """Return a fault. A refusal is a reply whose message has no content."""
        if name == REFUSED:
            reply = self.reply(Reply(""), {"messages": []})
            reply["choices"][0]["message"] |= {
                "content": None,
                "refusal": "I'm sorry, I can't help with that.",
            }
            return 200, reply
        return self.faults[name]

    def vectors(self, seen: Seen) -> Any:
        """Return embeddings, in another order than the texts: `index` tells."""
        if not seen.path.endswith("/embeddings"):
            return None
        items = [
            {"object": "embedding", "index": index, "embedding": vector(text)}
            for index, text in enumerate(seen.body["input"])
        ]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return {"object": "list", "data": items[::-1], "model": "e", "usage": usage}


class Azure(OpenAIChat):
    """`POST /openai/deployments/NAME/chat/completions?api-version=…`, and the newer `/openai/v1/chat/completions`."""

    provider = "azure"
    name = "my-gpt-4o"
    path = ""
    faults: ClassVar[dict[str, Result]] = OpenAIChat.faults | {
        FILTERED: (
            400,
            {
                "error": {
                    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
                    "management policy. Please modify your prompt and retry.",
                    "type": None,
                    "param": "prompt",
                    "code": "content_filter",
                    "status": 400,
                    "innererror": {
                        "code": "ResponsibleAIPolicyViolation",
                        "content_filter_result": {
                            "hate": {"filtered": False, "severity": "safe"},
                            "jailbreak": {"filtered": False, "detected": False},
                            "self_harm": {"filtered": False, "severity": "safe"},
                            "sexual": {"filtered": False, "severity": "safe"},
                            "violence": {"filtered": True, "severity": "medium"},
                        },
                    },
                }
            },
        ),
        LIMITED: (429, {"error": {"code": "429", "message": "Requests have exceeded the call rate limit."}}),
    }

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, path, version, field or role."""
        if seen.headers.get("api-key") != KEY:
            return 401, {
                "error": {
                    "code": "401",
                    "message": "Access denied due to invalid subscription key or wrong API endpoint.",
                }
            }
        path = re.fullmatch(r"/openai/(?:deployments/([\w.-]+)|v1)/(chat/completions|embeddings)", seen.path)
        if path is None or (path[1] is not None) != bool(re.match(r"20\d\d-", seen.query.get("api-version", ""))):
            return 404, {"error": {"code": "404", "message": "Resource not found"}}
        if path[1] not in (None, self.name, self.reasoner, "embedder"):
            text = "The API deployment for this resource does not exist."
            return 404, {"error": {"code": "DeploymentNotFound", "message": text}}
        if path[2] == "embeddings":
            return None
        return self._chat_problem(seen.body)

    def fault(self, name: str) -> Result:
        """Return a fault. A refusal is a completion that the filter has emptied."""
        if name == REFUSED:
            reply = self.reply(Reply(""), {"messages": []})
            reply["choices"][0] |= {
                "finish_reason": "content_filter",
                "message": {"role": "assistant"},
                "content_filter_results": {"violence": {"filtered": True, "severity": "high"}},
            }
            return 200, reply
        return self.faults[name]


class Vllm(OpenAIChat):
    """vLLM's server, which ignores fields that it does not know. With `sglang`, errors as SGLang has them."""

    name = "Qwen/Qwen3-8B"
    reasoner = "no-such-model"

    def __init__(self, *, sglang: bool = False) -> None:
        self._sglang = sglang

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, path, model or role."""
        if seen.headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"error": "Unauthorized"}
        if seen.path == "/v1/embeddings":
            return None
        if seen.path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        if seen.body["model"] != self.name:
            return 404, error("The model `x` does not exist.", 404, "model", kind="NotFoundError")
        if {each.get("role") for each in seen.body["messages"]} - {"system", "user", "assistant"}:
            return 400, error("Unexpected message role.", 400, kind="BadRequestError")
        return None

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a completion with its reasoning apart (vLLM), or in the text (SGLang without a parser)."""
        if self._sglang and reply.reasoning:
            return super().reply(Reply(f"<think>\n{reply.reasoning}\n</think>\n\n{reply.text}"), body)
        told = super().reply(reply, body)
        told["choices"][0]["message"]["reasoning_content"] = reply.reasoning or None
        return told

    def fault(self, name: str) -> Result:
        """Return a fault. These servers have no filter: what would be filtered overflows."""
        if self._sglang:
            text = "The input (61709 tokens) is longer than the model's context length (40960 tokens)."
            return 400, {
                "object": "error",
                "message": text,
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        text = "This model's maximum context length is 2048 tokens. However, your request has 2100 input tokens."
        text += " Please reduce the length of the input messages. (parameter=input_tokens, value=2100)"
        return 400, error(text, 400, "input_tokens", kind="BadRequestError")


class Responses(Dialect):
    """`POST /v1/responses`."""

    provider = "openai-responses"
    name = "gpt-4.1-mini"
    reasoner = "gpt-5-mini"
    path = "/v1"

    def problem(self, seen: Seen) -> Result | None:
        """Return the error for a wrong key, path, field, role, or for a parameter that reasoning models reject."""
        body = seen.body
        if seen.headers.get("authorization") != f"Bearer {KEY}":
            return 401, error("Incorrect API key provided: key****0123.", "invalid_api_key")
        if seen.path != "/v1/responses":
            return 404, error(f"Invalid URL (POST {seen.path})")
        for name in body:
            if name not in RESPONSES_FIELDS:
                return 400, error(f"Unknown parameter: '{name}'.", "unknown_parameter", name)
        if {item.get("role") for item in body["input"]} - {"system", "developer", "user", "assistant"}:
            return 400, error("Invalid value: 'x'.", "invalid_value", "input[0]")
        form = (body.get("text") or {}).get("format", {})
        if form.get("type") == "json_schema" and not {"name", "schema"} <= form.keys():
            text = "Missing required parameter: 'text.format.name'."
            return 400, error(text, "missing_required_parameter", "text.format.name")
        if body["model"] == self.reasoner and "temperature" in body:
            text = "Unsupported parameter: 'temperature' is not supported with this model."
            return 400, error(text, None, "temperature")
        if body["model"] != self.reasoner and "reasoning" in body:
            text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
            return 400, error(text, "unsupported_parameter", "reasoning.effort")
        return None

    def messages(self, body: dict[str, Any]) -> Messages:
        """Return instructions as the system message, and the input."""
        system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        return [*system, *body["input"]]

    def reply(self, reply: Reply, body: dict[str, Any]) -> Any:
        """Return a response, with a summary of the reasoning."""
        summary = {"type": "summary_text", "text": reply.reasoning}
        reasoning = [{"id": "rs_1", "type": "reasoning", "summary": [summary]}] if reply.reasoning else []
        text = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        return self._response([*reasoning, self._message(text)], reply)

    def fault(self, name: str) -> Result:
        """Return a fault. A refusal is a part of a message."""
        if name == REFUSED:
            refusal = {"type": "refusal", "refusal": "I'm sorry, I can't help with that."}
            return 200, self._response([self._message(refusal)], Reply())
        if name == OVERFLOW:
            text = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return 400, error(text, "context_length_exceeded", "input")
        return OpenAIChat.faults[name]

    def _message(self, part: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }

    def _response(self, output: list[dict[str, Any]], reply: Reply) -> Any:
        thought = tokens(reply.reasoning) if reply.reasoning else 0
        answer = tokens(reply.text) + thought
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": self.name,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 7,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": answer,
                "output_tokens_details": {"reasoning_tokens": thought},
                "total_tokens": 7 + answer,
            },
        }
