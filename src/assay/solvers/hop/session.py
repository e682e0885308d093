"""What a function under test gets: operators that verify what they return, plain calls, and a tracer.

Everything goes through the models of the run: logged, metered, retried, and replayed on resume. An operator
returns `(status, result)` and raises for nothing that a model, a verifier or a tool does. What stops the run
passes through. A call that failed for good is a FAIL, and `failure` keeps it for whoever ends the row.

Async functions get a `Session`, sync functions a `SyncSession` (sync_session.py) around one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from assay.core import user_code
from assay.core.connect import SCHEMA, response_format
from assay.core.errors import ModelError
from assay.core.hop_result import FAIL, OK
from assay.core.protocols import Context
from assay.core.types import Failure, Request
from assay.core.user_code import UserCodeError
from assay.solvers.hop.formats import (
    Tool,
    Tools,
    choice_problem,
    choice_schema,
    describe_form,
    form_problem,
    judgement_schema,
    named_tools,
    result_schema,
)
from assay.solvers.hop.messages import Messages, TaskText, UnreadableReply, read_judgement, task_text
from assay.solvers.hop.operators import Operation, OperatorOutcome, run_operation
from assay.solvers.hop.trace import OpenStep, Tracer, TraceStep
from assay.solvers.hop.verifiers import find_verifier, tool_choice

DEFAULT: Any = "default"
"""The operator's own verifier: `reverse`, and `tool_use` for hop_tool_use."""

HOP_RETRY = 3
TOOL_VERIFIERS = (DEFAULT, "tool_use", "tool_use_verifier")
# Parameters that already say the form of a reply: then no schema is added.
_FORM_PARAMETERS = frozenset({"response_format", "json_schema", "grammar"})


class ModelSide(NamedTuple):
    """One of the two models of a profile: its role in the run, and the parameters it is asked with.

    `schema` says whether its endpoint holds replies to a JSON schema. None: the provider knows.
    """

    role: str
    params: Mapping[str, Any] = {}
    schema: bool | None = None


class Session:
    """For async functions. One session serves one call of a function; `close` ends it."""

    def __init__(
        self,
        ctx: Context,
        run: ModelSide,
        verify: ModelSide,
        hop_retry: int = HOP_RETRY,
        on_step: Callable[[TraceStep], object] | None = None,
    ) -> None:
        self._ctx = ctx
        self._run = run
        self._verify = verify
        self._hop_retry = hop_retry
        self._asking: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.tracer = Tracer(on_step)
        self.failure: Failure | None = None
        """The first call that failed by no fault of the model: a row that fails after it is asked again."""

    @cached_property
    def model(self) -> PlainModel:
        """For plain calls."""
        return PlainModel(self)

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
            if problem := form_problem(result, return_format):
                raise UnreadableReply(problem)
            return result

        text, form = task_text(task, context), describe_form(return_format)
        claim = (
            text if return_format is None else TaskText(f"{text.task}\nThe result is {form}.", text.context)
        )
        operation = Operation(
            "get",
            text,
            task,
            context,
            {"format": form},
            result_schema(return_format),
            return_format,
            check,
            find_verifier(verifier),
            claim,
        )
        return await self._traced("hop_get", operation, hop_retry, params)

    async def hop_judge(
        self,
        task: str,
        context: Any = "",
        verifier: Any = DEFAULT,
        hop_retry: int | None = None,
        **params: Any,
    ) -> tuple[str, Any]:
        """Decide whether something holds: the result is "True", "False" or "Uncertain", always a text."""
        text = task_text(task, context)
        claim = TaskText(f'Say "True", "False" or "Uncertain": {text.task}', text.context)
        operation = Operation(
            "judge",
            text,
            task,
            context,
            {},
            judgement_schema(),
            check=read_judgement,
            verifier=find_verifier(verifier),
            claim_text=claim,
        )
        return await self._traced("hop_judge", operation, hop_retry, params)

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
        offered = named_tools(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            outcome = await self.choose_tool(offered, task, context, verifier, hop_retry, params)
            if outcome.status == OK:
                tool, arguments = chosen_tool(offered, outcome)
                try:
                    outcome = outcome._replace(result=await user_code.call(tool.function, (), arguments))
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failed(outcome, error)
            return self.note(step, outcome)

    async def choose_tool(
        self,
        tools: Mapping[str, Tool],
        task: Any,
        context: Any,
        verifier: Any,
        hop_retry: int | None,
        params: Mapping[str, Any],
    ) -> OperatorOutcome:
        """The first half of hop_tool_use: a choice that was verified. OK means that it can be run."""

        def check(result: Any) -> Any:
            if problem := choice_problem(result, tools):
                raise UnreadableReply(problem)
            return result

        text, listed = task_text(task, context), "\n".join(tool.describe() for tool in tools.values())
        claim = TaskText(
            f"{text.task}\nChoose one of these tools, and its arguments:\n{listed}", text.context
        )
        operation = Operation(
            "tool_use",
            text,
            task,
            context,
            {"tools": listed},
            choice_schema(tools),
            check=check,
            verifier=tool_choice(tools) if verifier in TOOL_VERIFIERS else find_verifier(verifier),
            claim_text=claim,
        )
        return await self._run_operation(operation, hop_retry, params)

    async def ask(
        self, messages: Messages, params: Mapping[str, Any], schema: dict[str, Any] | None = None
    ) -> str:
        """One call of the run side, as long as the session is open."""
        return await self._ask(self._run, messages, params, schema)

    def note(self, step: OpenStep, outcome: OperatorOutcome) -> tuple[str, Any]:
        """Write down how an operator ended; return what it returns."""
        step.note(outcome.status, outcome.retries, outcome.metadata())
        self.tracer.add_retries(outcome.retries)
        return outcome.status, outcome.result

    def close(self) -> None:
        """The call is over: what abandoned code asks for is not paid, and its steps are not kept."""
        self._closed = True
        self.tracer.close()
        if self._asking:
            for task in self._asking - {asyncio.current_task()}:
                task.cancel()

    async def _traced(
        self, op: str, operation: Operation, hop_retry: int | None, params: Mapping[str, Any]
    ) -> tuple[str, Any]:
        with self.tracer.operator(op, operation.task) as step:
            return self.note(step, await self._run_operation(operation, hop_retry, params))

    async def _run_operation(
        self, operation: Operation, hop_retry: int | None, params: Mapping[str, Any]
    ) -> OperatorOutcome:
        return await run_operation(
            operation,
            lambda messages, schema: self._ask(self._run, messages, params, schema),
            lambda messages, schema: self._ask(self._verify, messages, {}, schema),
            self._hop_retry if hop_retry is None else hop_retry,
        )

    async def _ask(
        self,
        side: ModelSide,
        messages: Messages,
        params: Mapping[str, Any],
        schema: dict[str, Any] | None,
    ) -> str:
        """One call. A form among the user's own parameters wins over the schema."""
        if self._closed:
            raise ModelError(
                Failure("closed", "the function's time is over: no call is made for it any more")
            )
        asker, task = self._ctx.model(side.role), asyncio.current_task()
        assert task is not None
        all_params = {**side.params, **params}
        if schema is not None and not _FORM_PARAMETERS.intersection(all_params):
            takes_schema = SCHEMA in asker.can if side.schema is None else side.schema
            if takes_schema:
                all_params["response_format"] = response_format(schema)
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=all_params)
        self._asking.add(task)
        try:
            return (await asker.ask(request)).text
        except ModelError as error:
            if self.failure is None and error.failure.status == "infra_error":
                self.failure = error.failure
            raise
        finally:
            self._asking.discard(task)


class PlainModel:
    """The run side for calls that nobody verifies."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def chat(self, messages: str | Messages, **params: Any) -> str:
        """The text of the reply. Raises ModelError where there is none."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return await self._session.ask(messages, params)


def chosen_tool(tools: Mapping[str, Tool], outcome: OperatorOutcome) -> tuple[Tool, dict[str, Any]]:
    """The tool of a verified choice, and its arguments."""
    return tools[outcome.result["tool"]], outcome.result.get("arguments", {})


def tool_failed(outcome: OperatorOutcome, error: UserCodeError | ModelError) -> OperatorOutcome:
    """The choice was fine and the tool raised: FAIL, and nothing is asked again."""
    raised = UserCodeError.of(error)
    return outcome._replace(status=FAIL, result=raised.message, reason=raised.message, error=raised.type_name)
