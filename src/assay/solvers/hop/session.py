"""What a function under test gets: operators that verify what they return, plain calls, and a tracer.

Everything goes through the models of the run: logged, metered, retried, and replayed on resume. An operator
returns `(status, result)` and raises for nothing that a model, a verifier or a tool does. What stops the run
passes through. A call that failed for good is a FAIL, and `failure` keeps it for whoever ends the row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from assay.core import user_code
from assay.core.connect import SCHEMA, response_format
from assay.core.errors import ModelError
from assay.core.protocols import Asker, Context
from assay.core.status import FAIL, OK
from assay.core.types import Failure, Request
from assay.core.user_code import UserCodeError
from assay.solvers.hop import schemas
from assay.solvers.hop.formats import described, mismatch
from assay.solvers.hop.operators import Operation, Outcome, Sides, operate
from assay.solvers.hop.replies import Unreadable, read_judgement
from assay.solvers.hop.tools import Tool, offered, problem_of
from assay.solvers.hop.tracing import OpenStep, Tracer
from assay.solvers.hop.verifiers import Verifier, cross, own, reverse, tool_use
from assay.solvers.hop.wording import Asked, Messages, asked

DEFAULT: Any = "default"
"""The operator's own verifier: `reverse`, and `tool_use` for hop_tool_use."""
HOP_RETRY = 3
Tools = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]

_NAMED: dict[str, Verifier | None] = {
    DEFAULT: reverse.verify,
    "reverse": reverse.verify,
    "reverse_verify": reverse.verify,
    "cross": cross.verify,
    "forward_cross_verify": cross.verify,
    "format": None,
    "format_verifier": None,
}
_FORMS = frozenset({"response_format", "json_schema", "grammar"})
_TOOL_NAMES = (DEFAULT, "tool_use", "tool_use_verifier")


class Side(NamedTuple):
    """One of the two models of a profile: its role in the run, and the parameters it is asked with.

    `schema` says whether its endpoint holds replies to a JSON schema; unsaid, the provider knows.
    """

    role: str
    params: Mapping[str, Any] = {}
    schema: bool | None = None


class PlainModel:
    """The run side for calls that nobody verifies."""

    def __init__(self, session: Session, side: Side) -> None:
        self._session = session
        self._side = side

    async def chat(self, messages: str | Messages, **params: Any) -> str:
        """The text of the reply. Raises ModelError where there is none."""
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return await self._session.ask(self._side, said, params)


class Session:
    """For async functions. One session serves one call of a function; `close` ends it."""

    def __init__(self, ctx: Context, run: Side, verify: Side, hop_retry: int = HOP_RETRY) -> None:
        self._ctx = ctx
        self._run = run
        self._verify = verify
        self._hop_retry = hop_retry
        self._asking: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.tracer = Tracer()
        self.failure: Failure | None = None
        """The first call that failed by no fault of the model: a row that fails after it is asked again."""

    @cached_property
    def model(self) -> PlainModel:
        """For plain calls."""
        return PlainModel(self, self._run)

    @property
    def retry_count(self) -> int:
        """Retries of all operators so far."""
        return self.tracer.retries

    async def base_url(self) -> str:
        """Where a foreign SDK reaches the run side's model until the row ends."""
        return await self._ctx.base_url(self._run.role)

    async def hop_get(
        self,
        task: str,
        context: Any = "",
        return_format: Any = None,
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Extract or work out something. `return_format` is words, a type, or fields with words or types."""

        def check(result: Any) -> Any:
            if problem := mismatch(result, return_format):
                raise Unreadable(problem)
            return result

        values, schema = {"format": described(return_format)}, schemas.got(return_format)
        what = asked(task, context)
        told = "" if return_format is None else f"\nThe result is {values['format']}."
        shown = Asked(f"{what.task}{told}", what.context)
        operation = Operation("get", what, (task, context), values, schema, return_format, check, shown=shown)
        return await self._operator("hop_get", operation, verifier, hop_retry, params)

    async def hop_judge(
        self,
        task: str,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Decide whether something holds: the result is "True", "False" or "Uncertain", always a text."""
        what = asked(task, context)
        shown = Asked(f'Say "True", "False" or "Uncertain": {what.task}', what.context)
        operation = Operation(
            "judge", what, (task, context), {}, schemas.judged(), check=read_judgement, shown=shown
        )
        return await self._operator("hop_judge", operation, verifier, hop_retry, params)

    async def hop_tool_use(
        self,
        task: str,
        tools: Tools,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Let the model choose a tool, and run it once: its result. A choice that is not OK is not run."""
        known = offered(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            outcome = await self.choose(known, (task, context), verifier, hop_retry, params)
            if outcome.status == OK:
                tool, arguments = chosen(known, outcome)
                try:
                    outcome = outcome._replace(result=await user_code.call(tool.function, (), arguments))
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failed(outcome, error)
            return self.noted(step, outcome)

    async def choose(
        self,
        tools: Mapping[str, Tool],
        given: tuple[Any, Any],
        verifier: Any,
        hop_retry: int | None,
        params: Mapping[str, Any],
    ) -> Outcome:
        """The first half of hop_tool_use: a choice that was verified. OK means that it can be run."""

        def check(result: Any) -> Any:
            if problem := problem_of(result, tools):
                raise Unreadable(problem)
            return result

        what, listed = asked(*given), "\n".join(tool.described() for tool in tools.values())
        shown = Asked(f"{what.task}\nChoose one of these tools, and its arguments:\n{listed}", what.context)
        verify = tool_use.among(tools) if verifier in _TOOL_NAMES else _verifier(verifier)
        operation = Operation(
            "tool_use",
            what,
            given,
            {"tools": listed},
            schemas.chosen(tools),
            check=check,
            verifier=verify,
            shown=shown,
        )
        return await operate(operation, self._sides(params), self._attempts(hop_retry))

    async def ask(
        self,
        side: Side,
        messages: Messages,
        params: Mapping[str, Any],
        schema: dict[str, Any] | None = None,
    ) -> str:
        """One call, for as long as the session is open; a form among the user's own parameters wins."""
        if self._closed:
            raise ModelError(
                Failure("closed", "the function's time is over: no call is made for it any more")
            )
        asker, task = self._ctx.model(side.role), asyncio.current_task()
        assert task is not None
        sent = {**side.params, **params}
        if schema is not None and _holds(side, asker) and not _FORMS.intersection(sent):
            sent["response_format"] = response_format(schema)
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=sent)
        self._asking.add(task)
        try:
            return (await asker.ask(request)).text
        except ModelError as error:
            if self.failure is None and error.failure.status == "infra_error":
                self.failure = error.failure
            raise
        finally:
            self._asking.discard(task)

    def noted(self, step: OpenStep, outcome: Outcome) -> tuple[str, Any]:
        """Write down how an operator ended; gives what it returns."""
        step.note(outcome.status, outcome.retries, outcome.metadata())
        self.tracer.count(outcome.retries)
        return outcome.status, outcome.result

    def close(self) -> None:
        """The row is over: what code that was left behind asks for is not paid, nor is its trace kept."""
        self._closed = True
        self.tracer.close()
        if self._asking:
            for task in self._asking - {asyncio.current_task()}:
                task.cancel()

    async def _operator(
        self,
        op: str,
        operation: Operation,
        verifier: Any,
        hop_retry: int | None,
        params: Mapping[str, Any],
    ) -> tuple[str, Any]:
        operation = operation._replace(verifier=_verifier(verifier))
        with self.tracer.operator(op, operation.given[0]) as step:
            outcome = await operate(operation, self._sides(params), self._attempts(hop_retry))
            return self.noted(step, outcome)

    def _attempts(self, hop_retry: int | None) -> int:
        return self._hop_retry if hop_retry is None else hop_retry

    def _sides(self, params: Mapping[str, Any]) -> Sides:
        return Sides(
            lambda messages, schema: self.ask(self._run, messages, params, schema),
            lambda messages, schema: self.ask(self._verify, messages, {}, schema),
        )


def chosen(tools: Mapping[str, Tool], outcome: Outcome) -> tuple[Tool, dict[str, Any]]:
    """The tool of a verified choice, and its arguments."""
    return tools[outcome.result["tool"]], outcome.result.get("arguments", {})


def tool_failed(outcome: Outcome, error: UserCodeError | ModelError) -> Outcome:
    """The choice was fine and the tool raised: FAIL, and nothing is asked again."""
    raised = UserCodeError.of(error)
    return outcome._replace(status=FAIL, result=raised.message, reason=raised.message, error=raised.type_name)


def _holds(side: Side, asker: Asker) -> bool:
    return SCHEMA in asker.can if side.schema is None else side.schema


def _verifier(given: Any) -> Verifier | None:
    """By name, none but the format check, or the user's own function."""
    if given is None:
        return None
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]
    if callable(given):
        return own.by(given)
    known = "reverse, cross, format, None, or a function of yours"
    raise ValueError(f"there is no verifier {given!r}; known: {known}")
