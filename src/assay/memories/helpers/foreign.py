"""Runs packages of other projects inside a memory: their version, their client, their errors and their embedder.

    monitor = CallMonitor("mem0")
    with monitor.operation():        # one `add` or `search` of the package
        with monitor.call():         # one request that it sends
            ...

A package reaches the run's model through the gateway, so its calls are logged and replayed. A failed call must fail the
operation: packages swallow some failures and store fewer facts.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata, util
from typing import TYPE_CHECKING, Any, TypeVar

from assay.core.errors import AssayError, CaseFailed, MissingExtra, ModelError, UsageError
from assay.core.types import Failure

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
Embed = Callable[[Sequence[str]], Awaitable["np.ndarray[Any, Any]"]]
# The OpenAI SDK does not start without a key. The gateway ignores it.
KEY = "not-a-key"
# Stands in prompts for the date of a session without one. Today's date would make the prompt, and so the key of
# its logged reply, change from day to day.
UNKNOWN_DATE = "unknown"


def package_version(*packages: str) -> str:
    """Return the installed versions. They are part of a run's identity, because other versions have other prompts."""
    try:
        return ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    except metadata.PackageNotFoundError:
        return ""


def require_package(module: str, memory: str) -> None:
    """Raise MissingExtra if the module is not installed. The extra has the name of the memory."""
    if util.find_spec(module) is None:
        raise MissingExtra(f"the memory {memory!r}", memory)


@contextmanager
def deprecations_ignored() -> Iterator[None]:
    """Ignore deprecation warnings inside packages, at their import: users can do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class CallMonitor:
    """Remembers the first failed call of an operation."""

    def __init__(self, memory: str) -> None:
        self._memory = memory
        self._failure: Exception | None = None

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Run one operation of the package. Raises if one of its calls failed, even if the package went on."""
        self._failure = None
        try:
            yield
        except Exception as error:
            raise translate_error(self._memory, self._failure or error) from error
        if self._failure is not None:
            raise translate_error(self._memory, self._failure)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Make one call to a model. After a failure, raise that failure again instead of a further call."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except Exception as error:
            self._failure = error
            raise


def translate_error(memory: str, error: Exception) -> Exception:
    """Return the assay error for an error of the OpenAI SDK. A failed endpoint is not the memory's fault."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        return ModelError(Failure("connection", f"{memory} could not reach the gateway: {error}"))
    if not isinstance(error, openai.APIStatusError):
        return error
    body = error.body if isinstance(error.body, dict) else {}
    return _gateway_error(memory, error.status_code, str(body.get("code")), str(body.get("message", error)))


def _gateway_error(memory: str, status: int, code: str, message: str) -> AssayError:
    if status == 501:
        return UsageError(f"the memory {memory}: {message}. Name another model with --model")
    if code in ("gateway", "stopped"):
        return CaseFailed(Failure("user_code", f"{memory}: {message}"))
    return ModelError(Failure(code, message, http=status))


def open_client(url: str) -> Any:
    """Return an AsyncOpenAI that sends its requests to the gateway, for packages that take one.

    It has no timeout and no retries, because the gateway has both, and no proxy, because the gateway is on loopback.
    Every request has a connection of its own: nobody tells a memory when to close the client.
    """
    import openai

    return openai.AsyncOpenAI(
        base_url=url,
        api_key=KEY,
        max_retries=0,
        timeout=None,
        default_headers={"Connection": "close"},
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
    )


def embed_from_thread(embed: Embed) -> Callable[[list[str]], list[list[float]]]:
    """Return a function that embeds with --embedder, for packages that call it in a thread.

    The embedder runs in the event loop in which this function was called.
    """
    loop = asyncio.get_running_loop()

    def embed_texts(texts: list[str]) -> list[list[float]]:
        return asyncio.run_coroutine_threadsafe(embed_rows(embed, texts), loop).result()

    return embed_texts


async def embed_rows(embed: Embed, texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of texts as lists of numbers, for packages that know no numpy."""
    rows: list[list[float]] = (await embed(texts)).tolist() if texts else []
    return rows
