"""A model that is a Python function: `python/FILE.py:function`, called with the prompt and the parameters.

The function is `def f(prompt, params)`, sync or async; `prompt` is the text or the list of messages and
`params` holds the generation parameters and the seed. It returns the text, or a dict with `text` and `usage`.
"""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from assay.core.connect import CHAT, TEXT, About, Connection
from assay.core.errors import ModelError, UsageError
from assay.core.hashing import file_sha256
from assay.core.registry import load_from_file
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response, Usage

ABOUT = About(
    summary="a Python function of yours, sync or async",
    needs="a file: python/FILE.py:function",
    can=frozenset({CHAT, TEXT}),
    example="python/my_model.py:answer",
)


class PythonModel:
    """Calls the function; what it raises counts against it, since it is what is evaluated."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        if ".py:" not in connection.name:
            raise UsageError(f"name a function: python/FILE.py:function, not python/{connection.name}")
        self._function = load_from_file(connection.name)
        # What the file says is what is evaluated: another content is another model.
        self.endpoint = f"file:{file_sha256(Path(connection.name.rpartition(':')[0]))[:16]}"
        self._async = inspect.iscoroutinefunction(self._function)
        self._pool = DaemonPool(connection.concurrency, "assay-model")
        self._timeout = connection.timeout

    async def send(self, request: Request, seed: int) -> Response:
        """One call of the function."""
        prompt = request.prompt if request.messages is None else request.messages
        params = {**request.params, "seed": seed}
        try:
            if self._async:
                return _response(await self._function(prompt, params))
            async with asyncio.timeout(self._timeout):
                return _response(await self._pool.run(lambda: self._function(prompt, params)))
        except TimeoutError:
            raise ModelError(
                Failure("timeout", f"the function took longer than {self._timeout:g} s")
            ) from None
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(Failure("user_code", f"{type(error).__name__}: {error}")) from error

    async def close(self) -> None:
        """Nothing to close."""


def _response(value: Any) -> Response:
    if isinstance(value, str):
        return Response(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        usage = value.get("usage") or {}
        return Response(
            value["text"], value.get("finish"), Usage(usage.get("input", 0), usage.get("output", 0))
        )
    raise TypeError(f"a model function returns a string or a dict with 'text', not {type(value).__name__}")


def connect(connection: Connection) -> PythonModel:
    """Called by the registry."""
    return PythonModel(connection)
