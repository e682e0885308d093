"""One generation of llama.cpp: what it has said so far, and the word that ends it."""

from __future__ import annotations

from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Failure, Response, Usage
from assay.models.llama.engine import Halt


class Reply:
    """llama.cpp calls `take` as it goes; True ends the generation."""

    def __init__(self, halt: Halt) -> None:
        self.logprobs: list[dict[str, Any]] = []
        self._halt = halt
        self._error: dict[str, Any] | None = None
        self._parts: list[str] = []
        self._finish: str | None = None
        self._usage: Usage | None = None

    def fill(self, ask: Any, body: dict[str, Any]) -> None:
        """Blocks. It streams only so that a reply nobody waits for can be ended."""
        stream = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
        try:
            ask({**body, **stream}, self._take)
        except Exception as error:  # noqa: BLE001 - requests it cannot read are raised as whatever C++ threw
            self._error = {"code": 400, "message": f"{type(error).__name__}: {error}"}

    def _take(self, chunk: dict[str, Any]) -> bool:
        if "error" in chunk:
            self._error = chunk["error"]
            return True
        for choice in chunk.get("choices") or ():
            self._parts.append(choice.get("text") or choice.get("delta", {}).get("content") or "")
            self._finish = choice.get("finish_reason") or self._finish
            self.logprobs += (choice.get("logprobs") or {}).get("content") or ()
        if usage := chunk.get("usage"):
            self._usage = Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0)
        return self._halt.asked

    def response(self) -> Response:
        """The whole reply, or the failure it met."""
        if self._error is not None:
            raise _failed(self._error)
        if self._finish is None:
            raise ModelError(Failure("server_error", "llama.cpp broke off without a reason"), retry=True)
        return Response("".join(self._parts), self._finish, self._usage)


def _failed(error: dict[str, Any]) -> ModelError:
    message = f"llama.cpp says: {error.get('message')}"
    if error.get("type") == "exceed_context_size_error":
        return ModelError(Failure("context_overflow", message))
    if int(error.get("code") or 0) >= 500:
        return ModelError(Failure("server_error", message), retry=True)
    return ModelError(Failure("rejected", message))
