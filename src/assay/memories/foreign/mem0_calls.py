"""What mem0 asks, on its way out: the date is the session's, and no failed call is swallowed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core.errors import AssayError, CaseFailed, ModelError, UsageError
from assay.core.types import Failure

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
Vectors = Callable[[list[str]], list[list[float]]]
Embed = Callable[[Any], Vectors]
"""Given the client of the gateway, how texts become vectors."""
UNKNOWN = "unknown"
"""The date of a session that has none: never the clock's."""
KEY = "not-a-key"
"""SDKs do not start without one; the gateway looks at none."""
_DATES = re.compile(r"\n\n## Observation Date\n[^\n]*\n\n## Current Date\n[^\n]*\n\n")


class Calls:
    """The first failure of an operation. mem0 goes on after some, and would only hold less."""

    def __init__(self) -> None:
        self.failure: Exception | None = None

    def made(self, call: Callable[[], T]) -> T:
        """What the call gives; after a failure nothing is asked any more."""
        if self.failure is not None:
            raise self.failure
        try:
            return call()
        except Exception as error:
            self.failure = error
            raise

    def watched(self, work: Callable[[], T]) -> T:
        """An operation of mem0 as a whole: it fails where a call failed, whatever mem0 made of that."""
        self.failure = None
        try:
            result = work()
        except Exception as error:
            raise blamed(self.failure or error) from error
        if self.failure is not None:
            raise blamed(self.failure)
        return result


class Llm:
    """mem0's own model object, behind the two lines that it takes from the clock."""

    def __init__(self, llm: Any, calls: Calls) -> None:
        self._llm = llm
        self._calls = calls
        self.date = ""

    def generate_response(self, messages: list[dict[str, Any]], **given: Any) -> Any:
        """As mem0 has it, at the date of the session."""
        return self._calls.made(partial(self._asked, messages, given))

    def _asked(self, messages: list[dict[str, Any]], given: dict[str, Any]) -> Any:
        *before, last = messages
        last = {**last, "content": pinned(last["content"], self.date)}
        return self._llm.generate_response(messages=[*before, last], **given)


class Embedder:
    """In place of mem0's own: whoever gives the vectors, a failure is kept."""

    def __init__(self, vectors: Vectors, calls: Calls) -> None:
        self._vectors = vectors
        self._calls = calls

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """One text."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """In the order of the texts."""
        return self._calls.made(partial(self._vectors, list(texts))) if texts else []


def pinned(prompt: str, date: str) -> str:
    """The prompt with the session's date. Messages come before the dates, so the last match is mem0's own."""
    found = list(_DATES.finditer(prompt))
    if not found:
        raise UsageError("this version of mem0ai writes its date in a way assay does not know: install 2.2")
    told = " ".join(date.split()) or UNKNOWN
    dates = f"\n\n## Observation Date\n{told}\n\n## Current Date\n{told}\n\n"
    return prompt[: found[-1].start()] + dates + prompt[found[-1].end() :]


def from_endpoint(model: str) -> Embed:
    """Vectors of the run's endpoint, asked for as mem0 does."""

    def embed(client: Any) -> Vectors:
        from mem0.utils.factory import EmbedderFactory

        own = EmbedderFactory.create("openai", {"model": model, "api_key": KEY}, None)
        own.client.close()
        own.client = client
        vectors: Vectors = own.embed_batch
        return vectors

    return embed


def from_run(embed: Callable[[Sequence[str]], Awaitable[np.ndarray[Any, Any]]]) -> Embed:
    """Vectors of the run's own embedder, asked from the threads of mem0."""
    loop = asyncio.get_running_loop()

    async def rows(texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = (await embed(texts)).tolist()
        return found

    def vectors(texts: list[str]) -> list[list[float]]:
        return asyncio.run_coroutine_threadsafe(rows(texts), loop).result()

    return lambda _: vectors


def blamed(error: Exception) -> Exception:
    """What the gateway told an SDK, as an error of ours: a failed endpoint is no fault of the memory."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        return ModelError(Failure("connection", f"mem0 could not reach the gateway: {error}"))
    if not isinstance(error, openai.APIStatusError):
        return error
    told = error.body if isinstance(error.body, dict) else {}
    return _failed(error.status_code, str(told.get("code")), str(told.get("message", error)))


def _failed(status: int, code: str, message: str) -> AssayError:
    if status == 501:
        return UsageError(f"the memory mem0: {message}. For vectors: --memory-args embedder=local")
    if code in ("gateway", "stopped"):
        return CaseFailed(Failure("user_code", f"mem0: {message}"))
    return ModelError(Failure(code, message, http=status))
