"""Provider `python/FILE.py:function`: a Python function of the user as a model.

    def answer(prompt, params):          # or async def
        return "42"                      # or {"text": "42", "usage": {"input": 7, "output": 1}}

`prompt` is a text, or a list of messages for chat. `params` holds the generation parameters and the seed.

The function, or an object with `__call__`, may also have an attribute `loglikelihood(context, continuation)`,
sync or async. It returns (log-probability of the continuation, whether greedy decoding would produce it).
`context` is None if the likelihood of a whole text is requested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.errors import ModelError, UsageError
from assay.core.roles import CHAT, LIKELIHOOD, TEXT, About, Connection
from assay.core.threads import DaemonPool
from assay.core.types import Failure, Request, Response, Usage
from assay.usercode import user_function
from assay.usercode.code_hash import code_sha256
from assay.usercode.errors import UserCodeError
from assay.usercode.plugins import load_from_file

ABOUT = About(
    summary="your Python function, sync or async; an object may also have `loglikelihood`",
    needs="a Python file: python/FILE.py:function",
    can=frozenset({CHAT, TEXT, LIKELIHOOD}),
    example="python/my_model.py:answer",
    calls_endpoint=False,
    computes=True,
)


class PythonModel:
    """Calls the function. Its exceptions count as failures of the model: the function is what is evaluated."""

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
        self._concurrency = concurrency
        self.can = ABOUT.can if likelihood else ABOUT.can - {LIKELIHOOD}
        self._pool = DaemonPool(concurrency, "assay-model")
        self._timeout = timeout

    async def send(self, request: Request, seed: int) -> Response:
        """Call the function once."""
        function: Callable[..., Any] | None = self._function
        arguments: tuple[Any, ...] = (request.prompt, {"seed": seed, **request.params})
        if request.continuation is not None:
            function, arguments = self._likelihood, (request.prompt, request.continuation)
        elif request.messages is not None:
            arguments = (request.messages, arguments[1])
        assert function is not None  # likelihoods are refused before the first request
        try:
            # Without a task for each call, an async function that blocks the loop is not interrupted, but the
            # call takes 20 µs less. Models are called often enough for that to matter.
            value = await user_function.call(
                function, arguments, timeout=self._timeout, pool=self._pool, own_task=False
            )
        except UserCodeError as error:
            if error.kind == "timeout":
                raise ModelError(Failure("timeout", f"the function took longer than {self._timeout:g} s")) from None
            raise ModelError(error.failure(f"{error.type_name}: {error.text}")) from error
        try:
            return _response(value) if request.continuation is None else _likelihood(value)
        except Exception as error:  # the returned value is neither a text nor a usable dict
            raise ModelError(Failure("user_code", f"{type(error).__name__}: {error}")) from error

    def recipe(self) -> Callable[[], PythonModel]:
        """Return a function that makes this model on another machine. It has no threads, so it can be sent there."""
        return partial(
            PythonModel,
            self._function,
            endpoint=self.endpoint,
            timeout=self._timeout,
            concurrency=self._concurrency,
            likelihood=self._likelihood,
        )

    async def close(self) -> None:
        """Nothing to close."""


def _response(value: Any) -> Response:
    if isinstance(value, str):
        return Response(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        usage = value.get("usage")
        token_usage = Usage(usage.get("input", 0), usage.get("output", 0)) if usage else None
        return Response(value["text"], value.get("finish"), token_usage)
    raise TypeError(f"a model function returns a string or a dict with 'text', not {type(value).__name__}")


def _likelihood(value: Any) -> Response:
    logprob, greedy = value
    if not isinstance(logprob, (int, float)) or not math.isfinite(logprob):
        raise TypeError(f"loglikelihood returns (finite number, true or false); the number is {logprob!r}")
    return Response("", data={"logprob": float(logprob), "greedy": bool(greedy)})


def connect(connection: Connection) -> PythonModel:
    """Load the function that is named. Called by the registry."""
    if ".py:" not in connection.name:
        raise UsageError(f"python/{connection.name} names no function: write python/FILE.py:function")
    function = load_from_file(connection.name)
    if problem := user_function.signature_problem(function, ("prompt", "params")):
        raise UsageError(f"python/{connection.name} cannot be used as a model: {problem}")
    # The file's content is the model's identity: after an edit it is another model.
    path = Path(connection.name.rpartition(":")[0])
    return PythonModel(
        function,
        endpoint=f"file:{code_sha256(path)[:16]}",
        timeout=connection.timeout,
        concurrency=connection.concurrency,
        likelihood=getattr(function, "loglikelihood", None),
    )
