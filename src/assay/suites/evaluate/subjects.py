"""The subjects of `assay.evaluate`: a function of a row, or a model with a prompt built from the row.

A subject turns one row into one answer. The solver calls it once per case, or `repeats` times, and emits each answer
as a record.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from assay.core.errors import CaseFailed, UsageError
from assay.core.protocols import Context, Solver
from assay.core.roles import CHAT
from assay.core.suite import MAIN
from assay.core.types import Failure, Request
from assay.language.patterns import call_without_blocking
from assay.language.templates import Template, TemplateProblem
from assay.suites.evaluate.arguments import CONTEXT, ROW, Arguments
from assay.suites.evaluate.rows import encode_json
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError

T = TypeVar("T")
Prompt = str | list[dict[str, Any]]
"""A text, or a list of chat messages."""


class EvaluateInputs(Struct, frozen=True):
    """The inputs of one case: the name of the subject, and the row without gold."""

    subject: str
    row: dict[str, Any]


class Subject(ABC):
    """Turns a row into an answer."""

    @abstractmethod
    async def answer(self, row: dict[str, Any], ctx: Context) -> Any:
        """Return the answer as a JSON value. Raises CaseFailed or ModelError."""


class EvaluateSolver(Solver):
    """Calls the subject of a case once per repeat."""

    def __init__(self, subjects: Mapping[str, Subject], repeats: int) -> None:
        self._subjects = subjects
        self._repeats = repeats

    async def solve(self, inputs: EvaluateInputs, ctx: Context) -> None:
        """Emit one record of the kind `answer` for each repeat."""
        subject = self._subjects[inputs.subject]
        for number in range(self._repeats):
            # Not concurrently: replay matches equal requests by their order, so the repeats must call in order.
            answer = await subject.answer(inputs.row, ctx)
            ctx.emit("answer", answer, part=str(number + 1) if self._repeats > 1 else "")


class FunctionSubject(Subject):
    """A user's function. Its return value is the answer."""

    def __init__(
        self, function: Callable[..., Any], arguments: Arguments, *, role: str, timeout: float, name: str
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._role = role
        self._timeout = timeout
        self._name = name

    async def answer(self, row: dict[str, Any], ctx: Context) -> Any:
        """Call the function. It gets a copy of the row, so that a repeat sees it unchanged."""
        context = make_function_context(self._function, ctx, self._role)
        copy = msgspec.json.decode(msgspec.json.encode(row))
        args, kwargs = self._arguments.choose({ROW: copy, CONTEXT: context}, copy)
        try:
            value = await user_function.call(self._function, args, kwargs, timeout=self._timeout, close=context.close)
        except UserCodeError as error:
            raise CaseFailed(error.failure()) from error
        try:
            answer = msgspec.json.decode(encode_json(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise CaseFailed(
                Failure(
                    "user_code",
                    f"{self._name}() returned a {type(value).__name__} that has no JSON form ({error}); "
                    "return a text, a number, a list or a dict",
                )
            ) from None
        if answer is None:
            # NaN, too: JSON writes it as null.
            raise CaseFailed(
                Failure("user_code", f"{self._name}() returned {value}; return the answer, or '' for no answer")
            )
        return answer


class PromptSubject(Subject):
    """A model with a prompt. The text of its reply is the answer."""

    def __init__(
        self,
        prompt: Callable[[dict[str, Any]], Prompt],
        *,
        role: str,
        system_instruction: str,
    ) -> None:
        self._prompt = prompt
        self._role = role
        self._system = system_instruction

    async def answer(self, row: dict[str, Any], ctx: Context) -> str:
        """Build the prompt and ask the model."""
        try:
            prompt = await call_without_blocking(self._prompt, row)
        except TemplateProblem as error:
            raise CaseFailed(Failure("user_code", f"prompt: {error}")) from None
        except UserCodeError as error:
            raise CaseFailed(error.failure()) from error
        return await ask_text(ctx, self._role, prompt, {}, self._system)


async def ask_text(
    ctx: Context, role: str, prompt: Prompt, params: Mapping[str, Any], system_instruction: str = ""
) -> str:
    """Ask a model and return the text of its reply.

    A model without a chat endpoint gets the contents of the messages as one text, separated by empty lines.
    """
    try:
        asker = ctx.model(role)
    except UsageError:
        # Replaces the engine's message, which names a command-line flag.
        parameter = role if role == "judge" else "model"
        raise UsageError(
            f"ctx.ask() has no model for the role {role!r}. Pass {parameter}='PROVIDER/NAME' to assay.evaluate"
        ) from None
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if system_instruction:
        messages = [{"role": "system", "content": system_instruction}, *messages]
    if CHAT in asker.can:
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=dict(params))
    else:
        text = "\n\n".join(str(message["content"]) for message in messages)
        request = Request(model=asker.name, endpoint=asker.endpoint, prompt=text, params=dict(params))
    return (await asker.ask(request)).text


def template_prompt(template: Template) -> Callable[[dict[str, Any]], Prompt]:
    """Return a function that renders a Jinja template over the columns of a row."""
    return template.render


def function_prompt(function: Callable[..., Any], arguments: Arguments) -> Callable[[dict[str, Any]], Prompt]:
    """Return a function that builds the prompt of a row with a user's function.

    It raises UserCodeError if the result is neither a text nor a list of messages.
    """

    def build(row: dict[str, Any]) -> Prompt:
        # A copy, so that a repeat sees the row unchanged.
        copy = msgspec.json.decode(msgspec.json.encode(row))
        args, kwargs = arguments.choose({ROW: copy}, copy)
        prompt = user_function.call_here(function, args, kwargs)
        if isinstance(prompt, str) or (isinstance(prompt, list) and all(isinstance(item, dict) for item in prompt)):
            return prompt
        raise UserCodeError(
            f"the prompt function returned a {type(prompt).__name__}; return a text or a list of messages",
            "bad_result",
        )

    return build


# The `ctx` of a user's function


_CASE_OVER = "this case is over; its context cannot be used any more"


class FunctionContext:
    """The `ctx` of an async function or scorer. Its calls are logged, so that a continued run does not repeat them."""

    def __init__(self, ctx: Context, role: str = MAIN) -> None:
        self._ctx = ctx
        self._role = role
        self._closed = False

    async def ask(self, prompt: Prompt, *, role: str = "", **params: Any) -> str:
        """Ask the model and return the text of its reply. `role="judge"` asks the judge.

        `params` are sent with the request, such as `temperature=0`.
        """
        self._check_open()
        return await ask_text(self._ctx, role or self._role, prompt, params)

    async def base_url(self, role: str = "") -> str:
        """Return a base URL for an OpenAI SDK. It works while the function runs, and its calls are logged."""
        self._check_open()
        return await self._ctx.base_url(role or self._role)

    def rng(self, name: str = "") -> random.Random:
        """Return a generator that gives the same numbers whenever this case runs. Each name has its own numbers."""
        return self._ctx.rng(name)

    def close(self) -> None:
        """Refuse further calls: a task that the function started may still run, and the run's files may be closed."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(_CASE_OVER)


class SyncFunctionContext:
    """The `ctx` of a function or scorer that is not async: the methods of `FunctionContext`, but blocking."""

    def __init__(self, ctx: Context, role: str = MAIN) -> None:
        self._ctx = ctx
        self._role = role
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def ask(self, prompt: Prompt, *, role: str = "", **params: Any) -> str:
        """Ask the model and return the text of its reply. `role="judge"` asks the judge.

        `params` are sent with the request, such as `temperature=0`.
        """
        return self._wait(ask_text(self._ctx, role or self._role, prompt, params))

    def base_url(self, role: str = "") -> str:
        """Return a base URL for an OpenAI SDK. It works while the function runs, and its calls are logged."""
        return self._wait(self._ctx.base_url(role or self._role))

    def rng(self, name: str = "") -> random.Random:
        """Return a generator that gives the same numbers whenever this case runs. Each name has its own numbers."""
        return self._ctx.rng(name)

    def close(self) -> None:
        """Refuse further calls. After a timeout, the function may still run in its thread."""
        self._closed = True

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise RuntimeError(_CASE_OVER)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def make_function_context(
    function: Callable[..., Any], ctx: Context, role: str = MAIN
) -> FunctionContext | SyncFunctionContext:
    """Return the `ctx` for a function: async methods for an async function, else blocking methods."""
    return FunctionContext(ctx, role) if user_function.is_async(function) else SyncFunctionContext(ctx, role)
