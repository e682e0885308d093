"""The session that a function under test receives: operators with verification, plain calls, and a tracer.

    async def check_fact(session, row):
        return await session.hop_judge(row["claim"], context=row["source"])

All calls go through the models of the run, so they are logged, counted, retried, and replayed on resume. An
operator returns `(status, result)`. It raises no exception for a failed model call, verifier or tool; only
exceptions that stop the whole run pass through. A model call that failed after all retries gives FAIL and
sets `Session.failure`, which decides how the row ends.

Async functions receive a `Session`. Other functions receive a `SyncSession` (sync_session.py) around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.events import notice
from assay.core.protocols import Context
from assay.core.roles import SCHEMA, response_format
from assay.core.types import Failure, Request
from assay.suites.hop.messages import Messages, TaskText, UnreadableReply, as_text, read_judgement, task_text
from assay.suites.hop.operators import Operation, OperatorOutcome, run_operation
from assay.suites.hop.reply_formats import (
    Tool,
    Tools,
    choice_problem,
    choice_schema,
    describe_form,
    form_problem,
    judgement_schema,
    result_schema,
    tools_by_name,
)
from assay.suites.hop.result import FAIL, OK
from assay.suites.hop.trace import OpenStep, Tracer, TraceStep
from assay.suites.hop.verifiers import find_verifier, tool_choice
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError

DEFAULT: Any = "default"
"""The default verifier of the operator: `tool_use` for hop_tool_use, `reverse` for the others."""

HOP_RETRY = 3
"""Attempts per operator unless the call passes `hop_retry`."""
TOOL_VERIFIERS = (DEFAULT, "tool_use", "tool_use_verifier")
# Request parameters that set the format of the reply. If the user passes one, assay adds no schema.
_FORM_PARAMETERS = frozenset({"response_format", "json_schema", "grammar"})
# Parameters of HOP's operators that have no effect here. They are not sent to the endpoint.
_UNUSED_PARAMETERS = {
    "include_history": "an operator does not see earlier ones. Put what it needs into `context`",
    "explanation_description": "no explanation is asked for. Put what the model must know into `task`",
    "return_format": "hop_judge returns the text True, False or Uncertain",
}


class ModelSide(NamedTuple):
    """One of the two models of a profile: its role in the run, and the parameters of its requests.

    `schema` tells whether the endpoint supports structured output. With None the provider decides.
    """

    role: str
    params: Mapping[str, Any] = {}
    schema: bool | None = None


class Session:
    """The session of an async function. It belongs to one call of the function; `close` ends it."""

    def __init__(
        self,
        ctx: Context,
        run: ModelSide,
        verify: ModelSide,
        hop_retry: int = HOP_RETRY,
        on_step: Callable[[TraceStep], object] | None = None,
        feedback: Sequence[str] = (),
        told: set[str] | None = None,
    ) -> None:
        """`told` has the names of unused parameters that a notice has named. Sessions of one run share it."""
        self._told = set() if told is None else told
        self.feedback = tuple(feedback)
        """What a person answered to LACK_OF_INFO or UNCERTAIN, in the View. Operators add it to their context."""
        self._ctx = ctx
        self._run = run
        self._verify = verify
        self._hop_retry = hop_retry
        self._open_calls: dict[asyncio.Task[Any], float] = {}  # with the time of their start
        self._closed = False
        self.waited_seconds = 0.0
        """How long the oldest call in flight had waited for its reply when the session was closed."""
        self.tracer = Tracer(on_step)
        self.failure: Failure | None = None
        """The first call that failed for a technical reason, such as a timeout of the endpoint.

        If the row fails after it, the next start of the run repeats the row.
        """

    @cached_property
    def model(self) -> PlainModel:
        """The profile's run model, called directly: no operator, and no second model that verifies the reply."""
        return PlainModel(self)

    @property
    def retry_count(self) -> int:
        """Number of retries of all operators so far."""
        return self.tracer.retries

    async def base_url(self) -> str:
        """Return a base URL for an SDK such as openai. It serves the run model until the row ends."""
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
        """Extract or derive a value. `return_format` is a description, a type, or a dict of fields with either."""

        def check(result: Any) -> Any:
            if problem := form_problem(result, return_format):
                raise UnreadableReply(problem)
            return result

        context = self._with_feedback(context)
        text = task_text(task, context)
        form = describe_form(return_format)
        # The verifier must know the format, or it would reject a result for its form.
        claim = text
        if return_format is not None:
            claim = TaskText(f"{text.task}\nThe result is {form}.", text.context)
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
        """Judge a statement or answer a yes-or-no question.

        The result is the text "True", "False" or "Uncertain", never a bool.
        """
        context = self._with_feedback(context)
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
        """Let the model choose a tool and its arguments, run the tool once, and return its result.

        The tool does not run unless the choice was verified as OK.
        """
        offered = tools_by_name(tools)
        with self.tracer.operator("hop_tool_use", task) as step:
            outcome = await self.choose_tool(offered, task, context, verifier, hop_retry, params)
            if outcome.status == OK:
                tool, arguments = chosen_tool(offered, outcome)
                try:
                    outcome = outcome._replace(result=await user_function.call(tool.function, (), arguments))
                except (UserCodeError, ModelError) as error:
                    outcome = tool_failure(outcome, error)
            return self.end_step(step, outcome)

    async def choose_tool(
        self,
        tools: Mapping[str, Tool],
        task: Any,
        context: Any,
        verifier: Any,
        hop_retry: int | None,
        params: Mapping[str, Any],
    ) -> OperatorOutcome:
        """Return a verified choice of a tool: the first half of hop_tool_use. Does not run the tool."""

        def check(result: Any) -> Any:
            if problem := choice_problem(result, tools):
                raise UnreadableReply(problem)
            return result

        context = self._with_feedback(context)
        text = task_text(task, context)
        tool_list = "\n".join(tool.describe() for tool in tools.values())
        claim = TaskText(f"{text.task}\nChoose one of these tools, and its arguments:\n{tool_list}", text.context)
        operation = Operation(
            "tool_use",
            text,
            task,
            context,
            {"tools": tool_list},
            choice_schema(tools),
            check=check,
            verifier=tool_choice(tools) if verifier in TOOL_VERIFIERS else find_verifier(verifier),
            claim_text=claim,
        )
        return await self._run_operation(operation, hop_retry, params)

    async def ask(self, messages: Messages, params: Mapping[str, Any], schema: dict[str, Any] | None = None) -> str:
        """Call the run model once and return the text of the reply. Raises ModelError after `close`."""
        return await self._ask(self._run, messages, params, schema)

    def end_step(self, step: OpenStep, outcome: OperatorOutcome) -> tuple[str, Any]:
        """Record the outcome of an operator in its step, and return `(status, result)` for the function."""
        step.set_outcome(outcome.status, outcome.retries, outcome.metadata())
        self.tracer.add_retries(outcome.retries)
        return outcome.status, outcome.result

    def close(self) -> None:
        """End the session. Calls in flight are cancelled, later calls fail, later steps are dropped.

        A function that timed out may still run in its thread. It must not cause costs any more.
        """
        self._closed = True
        self.tracer.close()
        if self._open_calls:
            self.waited_seconds = asyncio.get_running_loop().time() - min(self._open_calls.values())
            for task in self._open_calls.keys() - {asyncio.current_task()}:
                task.cancel()

    def _with_feedback(self, context: Any) -> Any:
        """Return the context for an operator: with feedback, the text of the context and the feedback after it."""
        if not self.feedback:
            return context
        parts = [as_text(context)] if context else []
        return "\n\n".join([*parts, *(f"Further information from a person: {text}" for text in self.feedback)])

    async def _traced(
        self, op: str, operation: Operation, hop_retry: int | None, params: Mapping[str, Any]
    ) -> tuple[str, Any]:
        with self.tracer.operator(op, operation.task) as step:
            return self.end_step(step, await self._run_operation(operation, hop_retry, params))

    async def _run_operation(
        self, operation: Operation, hop_retry: int | None, params: Mapping[str, Any]
    ) -> OperatorOutcome:
        for name in _UNUSED_PARAMETERS.keys() & params.keys():
            params = {other: value for other, value in params.items() if other != name}
            if name not in self._told:
                self._told.add(name)
                notice(f"`{name}` of an operator has no effect: {_UNUSED_PARAMETERS[name]}")
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
        """Send one request. The schema is added unless the user's parameters already set a reply format."""
        if self._closed:
            raise ModelError(Failure("closed", "the function's time is over: no call is made for it any more"))
        asker = self._ctx.model(side.role)
        task = asyncio.current_task()
        assert task is not None
        all_params = {**side.params, **params}
        if schema is not None and not _FORM_PARAMETERS.intersection(all_params):
            takes_schema = SCHEMA in asker.can if side.schema is None else side.schema
            if takes_schema:
                all_params["response_format"] = response_format(schema)
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=all_params)
        self._open_calls[task] = asyncio.get_running_loop().time()
        try:
            return (await asker.ask(request)).text
        except ModelError as error:
            if self.failure is None and error.failure.status == "infra_error":
                self.failure = error.failure
            raise
        finally:
            self._open_calls.pop(task, None)


class PlainModel:
    """Calls the run model directly. The verify model does not check the reply."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def chat(self, messages: str | Messages, **params: Any) -> str:
        """Return the text of the reply. Raises ModelError if the call fails."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return await self._session.ask(messages, params)


def chosen_tool(tools: Mapping[str, Tool], outcome: OperatorOutcome) -> tuple[Tool, dict[str, Any]]:
    """Return the tool and the arguments of a verified choice."""
    return tools[outcome.result["tool"]], outcome.result.get("arguments", {})


def tool_failure(outcome: OperatorOutcome, error: UserCodeError | ModelError) -> OperatorOutcome:
    """Return the outcome of a tool that raised: FAIL. The model is not asked again, since its choice was valid."""
    failure = UserCodeError.of(error)
    return outcome._replace(status=FAIL, result=failure.message, reason=failure.message, error=failure.type_name)
