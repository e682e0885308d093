"""A chat endpoint on loopback that rejects some parameters, as reasoning models do, and has or lacks abilities."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from servers.running import RunningServer

# How OpenAI rejects each parameter.
REJECTIONS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
    "seed": "Unrecognized request argument supplied: seed",
    "stop": "Unsupported parameter: 'stop' is not supported with this model.",
    "system": "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "response_format": "response_format is not supported by this model",
}


class PickyEndpoint(RunningServer):
    """Rejects the parameters in `rejects`, from the request of the number `rejects_from` on.

    `requests` has the path and the body of each request to the model, `arrived` the paths of all requests. With
    `tokenizes` it has a tokenizer and echoes likelihoods, as vLLM does.
    """

    def __init__(self, *rejects: str, key: str = "", model: str = "good", limit: int = 1000) -> None:
        self.rejects = rejects
        self.key = key
        self.model = model
        self.limit = limit
        self.rejects_from = 1
        self.tokenizes = False
        self.honours_seed = True
        self.fits_schema = True
        self.embeds = True
        self.usage: dict[str, int] | None = {"prompt_tokens": 9, "completion_tokens": 1}
        self.text = "ready"
        self.message: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.arrived: list[str] = []
        self._open = 0

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.removeprefix("/v1")
        self.arrived.append(path)
        if path == "/tokenizer_info" and self.tokenizes:
            return web.json_response({"bos_token": "^"})
        if path == "/tokenize" and self.tokenizes:
            text = json.loads(await request.read())["prompt"]
            return web.json_response({"tokens": [ord(char) for char in text]})
        if path not in ("/chat/completions", "/completions", "/embeddings"):  # the tokenizer of vLLM
            return _error(404, "not found")
        body = json.loads(await request.read())
        self.requests.append((path, body))
        self._open += 1
        try:
            return self._answer(path, body, request.headers.get("Authorization", ""))
        finally:
            self._open -= 1

    def _answer(self, path: str, body: dict[str, Any], authorization: str) -> web.Response:
        if self.key and authorization != f"Bearer {self.key}":
            return _error(401, "Incorrect API key provided")
        if body["model"] != self.model:
            return _error(404, f"The model `{body['model']}` does not exist")
        if len(self.requests) > self.limit:
            return _error(429, "Rate limit reached")
        if path == "/embeddings":
            vectors = [{"index": 0, "embedding": [0.5, 0.5]}]
            return web.json_response({"data": vectors}) if self.embeds else _error(400, "no embeddings here")
        messages = body.get("messages") or [{"role": "user", "content": body.get("prompt")}]
        for name in self.rejects if len(self.requests) >= self.rejects_from else ():
            if name in body or (name == "system" and messages[0]["role"] == "system"):
                return _error(400, REJECTIONS[name])
        text = self.text
        if "response_format" in body and self.fits_schema:
            text = '{"colour": "blue"}'
        elif "digits" in str(messages[-1]["content"]):
            text = "123456789012" if self.honours_seed else str(len(self.requests))
        message = {"message": {"content": text, **self.message}} if "messages" in body else {"text": text}
        choice = {"index": 0, **message, "finish_reason": "stop"}
        if body.get("echo") and self.tokenizes:
            (ids,) = body["prompt"]
            choice["logprobs"] = {
                "token_logprobs": [None, *[-0.5] * len(ids)],
                "top_logprobs": [None, *[{"x": -0.5}] * len(ids)],
            }
        reply = {"choices": [choice]} | ({"usage": self.usage} if self.usage else {})
        return web.json_response(reply)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error"}}, status=status)
