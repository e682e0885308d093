"""A model that is a Python function: `python/FILE.py:function`, called with the prompt and the parameters.

The function is `def f(prompt, params)`, sync or async; `prompt` is the text or the list of messages and
`params` holds the generation parameters and the seed. It returns the text, or a dict with `text` and `usage`.

What is named may also have a `loglikelihood(context, continuation)`, sync or async, as an object's method or
a function's attribute. It returns the logarithm of the probability and whether greedy decoding would say it;
`context` is None where the likelihood of a whole text is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.core import user_code
from assay.core.code import code_sha256
from assay.core.connect import CHAT, LIKELIHOOD, TEXT, About, Connection
from assay.core.errors import ModelError, UsageError
from assay.core.registry import load_from_file
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response, Usage
from assay.core.user_code import UserCodeError

ABOUT = About(
    summary="a Python function of yours, sync or async; or an object that has `loglikelihood` too",
    needs="a file: python/FILE.py:function",
    can=frozenset({CHAT, TEXT, LIKELIHOOD}),
    example="python/my_model.py:answer",
)


class PythonModel:
    """Calls the function. Its exceptions count against it, since it is what is evaluated."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        endpoint: str,
        timeout: float,
        concurrency: int,
        likelihood: Callable[..., Any] | None = None,
    ) -> None:
        """`endpoint` identifies the code: it is part of every request's identity."""
        self._function = function
        self.endpoint = endpoint
        self._likelihood = likelihood
        self.can = ABOUT.can if likelihood else ABOUT.can - {LIKELIHOOD}
        self._pool = DaemonPool(concurrency, "assay-model")
        self._timeout = timeout

    async def send(self, request: Request, seed: int) -> Response:
        """Call the function once."""
        function: Callable[..., Any] | None = self._function
        arguments: tuple[Any, ...] = (request.prompt, {**request.params, "seed": seed})
        if request.continuation is not None:
            function, arguments = self._likelihood, (request.prompt, request.continuation)
        elif request.messages is not None:
            arguments = (request.messages, arguments[1])
        assert function is not None  # likelihoods are refused before the first request
        try:
            # No task of its own for each call: models are called so often that the time would be felt.
            value = await user_code.call(
                function, arguments, timeout=self._timeout, pool=self._pool, own_task=False
            )
        except UserCodeError as error:
            if error.kind == "timeout":
                raise ModelError(
                    Failure("timeout", f"the function took longer than {self._timeout:g} s")
                ) from None
            raise ModelError(error.failure(f"{error.type_name}: {error.text}")) from error
        try:
            return _response(value) if request.continuation is None else _likelihood(value)
        except Exception as error:  # the function returned something that is no reply
            raise ModelError(Failure("user_code", f"{type(error).__name__}: {error}")) from error

    async def close(self) -> None:
        """Nothing to close."""


def _response(value: Any) -> Response:
    if isinstance(value, str):
        return Response(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        usage = value.get("usage")
        counted = Usage(usage.get("input", 0), usage.get("output", 0)) if usage else None
        return Response(value["text"], value.get("finish"), counted)
    raise TypeError(f"a model function returns a string or a dict with 'text', not {type(value).__name__}")


def _likelihood(value: Any) -> Response:
    logprob, greedy = value
    if not isinstance(logprob, (int, float)) or not math.isfinite(logprob):
        raise TypeError(f"loglikelihood returns a finite number and a truth, not {logprob!r}")
    return Response("", data={"logprob": float(logprob), "greedy": bool(greedy)})


def connect(connection: Connection) -> PythonModel:
    """Load the function that is named. Called by the registry."""
    if ".py:" not in connection.name:
        raise UsageError(f"name a function: python/FILE.py:function, not python/{connection.name}")
    function = load_from_file(connection.name)
    # The file's content is the model's identity: after an edit it is another model.
    path = Path(connection.name.rpartition(":")[0])
    return PythonModel(
        function,
        endpoint=f"file:{code_sha256(path)[:16]}",
        timeout=connection.timeout,
        concurrency=connection.concurrency,
        likelihood=getattr(function, "loglikelihood", None),
    )
