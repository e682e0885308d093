"""What is evaluated: a function of a row, or a model that gets a prompt made of the row.

A subject turns one row into one answer. The solver asks it once a case, or as often as `repeats` says, and emits each
answer as a record.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from assay.core import user_code
from assay.core.connect import CHAT
from assay.core.errors import CaseFailed, UsageError
from assay.core.protocols import Context, Solver
from assay.core.suite import MAIN
from assay.core.templates import Template, TemplateProblem
from assay.core.types import Failure, Request
from assay.core.user_code import UserCodeError
from assay.suites.evaluate.arguments import CONTEXT, ROW, Arguments
from assay.suites.evaluate.rows import encode_json

T = TypeVar("T")
Prompt = str | list[dict[str, Any]]
"""A text, or a list of messages."""


class EvaluateInputs(Struct, frozen=True):
    """One case: which subject, and its row without gold."""

    subject: str
    row: dict[str, Any]


class Subject(ABC):
    """Turns a row into an answer."""

    @abstractmethod
    async def answer(self, row: dict[str, Any], ctx: Context) -> Any:
        """The answer as a JSON value. Raises CaseFailed or ModelError."""


class EvaluateSolver(Solver):
    """Asks a subject for the answers of one case."""

    def __init__(self, subjects: Mapping[str, Subject], repeats: int) -> None:
        self._subjects = subjects
        self._repeats = repeats

    async def solve(self, inputs: EvaluateInputs, ctx: Context) -> None:
        """Emit one record of the kind `answer` for each repeat."""
        subject = self._subjects[inputs.subject]
        for number in range(self._repeats):
            # One after another: a function that is called again must meet the replies of its own repeat.
            answer = await subject.answer(inputs.row, ctx)
            ctx.emit("answer", answer, part=str(number + 1) if self._repeats > 1 else "")


class FunctionSubject(Subject):
    """A function of the user. What it returns is the answer."""

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
            value = await user_code.call(
                self._function, args, kwargs, timeout=self._timeout, close=context.close
            )
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
                Failure(
                    "user_code", f"{self._name}() returned {value}; return the answer, or '' for no answer"
                )
            )
        return answer


class PromptSubject(Subject):
    """A model that is asked with a prompt. The text of its reply is the answer."""

    def __init__(
        self,
        prompt: Callable[[dict[str, Any]], Prompt],
        *,
        role: str,
        params: Mapping[str, Any],
        system_instruction: str,
    ) -> None:
        self._prompt = prompt
        self._role = role
        self._params = dict(params)
        self._system = system_instruction

    async def answer(self, row: dict[str, Any], ctx: Context) -> str:
        """Render the prompt and ask."""
        try:
            prompt = self._prompt(row)
        except TemplateProblem as error:
            raise CaseFailed(Failure("user_code", f"prompt: {error}")) from None
        except UserCodeError as error:
            raise CaseFailed(error.failure()) from error
        return await ask_text(ctx, self._role, prompt, self._params, self._system)


async def ask_text(
    ctx: Context, role: str, prompt: Prompt, params: Mapping[str, Any], system_instruction: str = ""
) -> str:
    """Ask a model and return the text of its reply. A model that only continues texts gets the messages as text."""
    try:
        asker = ctx.model(role)
    except UsageError:
        # The engine's message names a flag of the command line.
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
    """A prompt that is a Jinja template over the columns."""
    return template.render


def function_prompt(function: Callable[..., Any], arguments: Arguments) -> Callable[[dict[str, Any]], Prompt]:
    """A prompt that a function of the user builds: a text, or a list of messages."""

    def build(row: dict[str, Any]) -> Prompt:
        # A copy, so that a repeat sees the row unchanged.
        copy = msgspec.json.decode(msgspec.json.encode(row))
        args, kwargs = arguments.choose({ROW: copy}, copy)
        prompt = user_code.call_here(function, args, kwargs)
        if isinstance(prompt, str) or (
            isinstance(prompt, list) and all(isinstance(item, dict) for item in prompt)
        ):
            return prompt
        raise UserCodeError(
            f"the prompt function returned a {type(prompt).__name__}; return a text or a list of messages",
            "bad_result",
        )

    return build


# What a function may use


class FunctionContext:
    """What an async function or scorer gets as `ctx`. Calls are logged: a continued run does not pay twice."""

    def __init__(self, ctx: Context, role: str = MAIN) -> None:
        self._ctx = ctx
        self._role = role

    async def ask(self, prompt: Prompt, *, role: str = "", **params: Any) -> str:
        """The text of a model's reply. `role` is `judge` for the judge; `params` are sent with the request."""
        return await ask_text(self._ctx, role or self._role, prompt, params)

    async def base_url(self, role: str = "") -> str:
        """The URL at which an OpenAI SDK reaches the model while the function runs; the calls are logged."""
        return await self._ctx.base_url(role or self._role)

    def rng(self, name: str = "") -> random.Random:
        """Random numbers that are the same whenever this case runs again. Another name gives other numbers."""
        return self._ctx.rng(name)

    def close(self) -> None:
        """Called when the function has returned."""


class SyncFunctionContext:
    """What a function that is not async gets as `ctx`: the same names, and each call waits for its result."""

    def __init__(self, ctx: Context, role: str = MAIN) -> None:
        self._ctx = ctx
        self._role = role
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def ask(self, prompt: Prompt, *, role: str = "", **params: Any) -> str:
        """The text of a model's reply. `role` is `judge` for the judge; `params` are sent with the request."""
        return self._wait(ask_text(self._ctx, role or self._role, prompt, params))

    def base_url(self, role: str = "") -> str:
        """The URL at which an OpenAI SDK reaches the model while the function runs; the calls are logged."""
        return self._wait(self._ctx.base_url(role or self._role))

    def rng(self, name: str = "") -> random.Random:
        """Random numbers that are the same whenever this case runs again. Another name gives other numbers."""
        return self._ctx.rng(name)

    def close(self) -> None:
        """Refuse further calls: a function that took too long may still run in its thread."""
        self._closed = True

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise RuntimeError("this case is over; its context cannot be used any more")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def make_function_context(
    function: Callable[..., Any], ctx: Context, role: str = MAIN
) -> FunctionContext | SyncFunctionContext:
    """The context that fits the function: one to await, or one that waits."""
    return FunctionContext(ctx, role) if user_code.is_async(function) else SyncFunctionContext(ctx, role)
