"""Runs the tests of a case through a pipeline. The steps of a pipeline form a graph."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import CaseFailed, ModelError
from assay.core.protocols import Context, Solver
from assay.core.types import Failure
from assay.language.conditions import Expression
from assay.suites.pipeline.code import CodeRunner
from assay.suites.pipeline.steps.batch import BATCH_ITEMS, Batch, RunOnce, StepValues, run_batch
from assay.suites.pipeline.steps.pipeline import AGGREGATE, Pipeline, Step, StepsInputs, TestInputs
from assay.suites.pipeline.steps.runner import Meter, StepContext, StepError

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class StepsSolver(Solver):
    """Runs pipelines. Emits one `step` or `aggregation` record per step of a test, then one `answer`.

    A test that does not run has one `skipped` record instead. `pipelines` are by variant.
    """

    def __init__(self, pipelines: Mapping[str, Pipeline], code_runners: Sequence[CodeRunner] = ()) -> None:
        self._pipelines = pipelines
        self._code_runners = code_runners

    async def solve(self, inputs: StepsInputs, ctx: Context) -> None:
        """Run the tests in order. A test runs only if the tests it depends on have passed."""
        pipeline = self._pipelines[inputs.variant]
        failures: list[Failure] = []
        skipped: set[str] = set()
        verdicts: dict[str, bool] = {}

        async def passed(other: str) -> bool:
            if other not in verdicts:  # many tests may depend on the same test
                verdicts[other] = await ctx.passed(other)
            return verdicts[other]

        for test in inputs.tests:
            reason = await _reason_to_skip(test, inputs.variant, skipped, passed)
            if reason:
                skipped.add(test.id)
                ctx.emit("skipped", {"why": reason}, test.id)
                continue
            failure = await TestRun(pipeline, test, ctx).run()
            if failure is not None:
                failures.append(failure)
        if failures:
            raise CaseFailed(failures[0])

    async def close(self) -> None:
        """Stop the processes in which code ran."""
        for runner in self._code_runners:
            await runner.close()


async def _reason_to_skip(
    test: TestInputs, variant: str, skipped: set[str], passed: Callable[[str], Awaitable[bool]]
) -> str:
    names = {**test.inputs, "inputs": test.inputs, "tags": test.tags, "variant": variant}
    if test.condition and not Expression(test.condition).holds(names):
        return f"its condition is not met: {test.condition}"
    for other in test.depends_on:
        if other in skipped:
            return f"it depends on {other}, which was skipped"
        if not await passed(other):
            return f"it depends on {other}, which failed"
    return ""


class StepResult(Struct, frozen=True, omit_defaults=True):
    """The outcome of one step: the data of its record. Default values are not written."""

    status: str
    output: Any = None
    kind: str = ""
    error: str = ""
    failed_items: list[dict[str, Any]] = []
    items: int | None = None
    attempts: int = 1
    calls: int = 0
    stopped_calls: int = 0
    tokens: list[int] = []
    seconds: float = 0.0


class TestRun:
    """Runs one test through the pipeline."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    def __init__(self, pipeline: Pipeline, test: TestInputs, ctx: Context) -> None:
        self._pipeline = pipeline
        self._test = test
        self._ctx = ctx
        self._inputs = {**dict.fromkeys(pipeline.optional, ""), **test.inputs}
        if test.batch_items is not None:
            self._inputs.setdefault(BATCH_ITEMS, test.batch_items)
        self._names: dict[str, Any] = {**self._inputs, "inputs": test.inputs}
        self._results: dict[str, StepResult] = {}
        self._tracebacks: dict[str, str] = {}

    async def run(self) -> Failure | None:
        """Run the steps, then emit the answer. Returns the failure of the first required step that failed.

        If none failed, the first required step that was skipped counts.
        """
        # Fast path: if each step needs the previous one, no asyncio tasks and events are needed.
        if self._pipeline.straight:
            for step in self._pipeline.steps:
                await self._run_step(step)
        else:
            await self._run_concurrently()
        self._emit_answer()
        required = [step for step in self._pipeline.steps if step.required]
        for status in (FAILED, SKIPPED):
            for step in required:
                result = self._results[step.id]
                if result.status == status:
                    message = f"step {step.id}: {result.error}"
                    traceback = self._tracebacks.get(step.id, "")
                    return Failure("failed_step", message, self._test.id, traceback=traceback)
        return None

    async def _run_concurrently(self) -> None:
        """Start each step as soon as the steps it needs have ended."""
        ended = {step.id: asyncio.Event() for step in self._pipeline.steps}

        async def run_after_others(step: Step) -> None:
            try:
                for other in step.after:
                    await ended[other].wait()
                # A step without a result had a ModelError, which fails the whole case.
                if all(other in self._results for other in step.after):
                    await self._run_step(step)
            finally:
                ended[step.id].set()

        await self._ctx.map(run_after_others, self._pipeline.steps)

    async def _run_step(self, step: Step) -> None:
        """Run a step and emit its record. The step is skipped if a step that it needs has no output."""
        missing = [other for other in step.after if self._results[other].status != OK]
        if missing:
            names = ", ".join(sorted(missing))
            result = StepResult(SKIPPED, error=f"it needs {names}, which has no output")
        else:
            result = await self._measure(step)
        self._results[step.id] = result
        if result.status == OK:
            self._names[step.id] = result.output
            self._names[step.output_key] = result.output
        self._emit(step, result)

    def _emit(self, step: Step, result: StepResult) -> None:
        kind = "aggregation" if step.kind == AGGREGATE else "step"
        self._ctx.emit(kind, msgspec.to_builtins(result), f"{self._test.id}/{step.id}")

    async def _measure(self, step: Step) -> StepResult:
        """Run a step and return its result with calls, tokens and seconds. Raises ModelError if a call has no reply.

        The time spent waiting for a permit does not count as the step's time.
        """
        meter = Meter()
        started = time.perf_counter()
        output: Any = None
        extra: dict[str, Any] = {}
        error: StepError | None = None
        model_error: ModelError | None = None
        try:
            output, extra = await self._output(step, StepContext(self._ctx, meter))
        except StepError as failed:
            error = failed
            self._tracebacks[step.id] = failed.traceback
        except ModelError as failed:
            model_error = failed
        elapsed = time.perf_counter() - started
        # The items of a batch wait at the same time, so the sum of their waits cannot be subtracted.
        seconds = elapsed - meter.waited if step.batch is None else max(elapsed, meter.longest)
        cost: dict[str, Any] = {
            "attempts": meter.attempts,
            "calls": meter.calls,
            "stopped_calls": meter.stopped,
            "tokens": [meter.input, meter.output] if meter.input or meter.output else [],
            "seconds": round(max(seconds, 0.0), 6),
        }
        if model_error is not None:
            # The case has no answer and is tried again. The record says which step failed, and what it sent.
            failure = model_error.failure
            self._emit(step, StepResult(FAILED, kind=failure.kind, error=failure.message, **cost))
            raise model_error
        if error is not None:
            return StepResult(FAILED, kind=error.kind, error=str(error), **cost)
        return StepResult(OK, output, **extra, **cost)

    async def _output(self, step: Step, ctx: StepContext) -> tuple[Any, dict[str, Any]]:
        """Return the output and, for a batch, the counts of its items. Each item of a batch has its own retries."""
        settings: dict[str, Any] = {}
        if self._test.step_inputs:
            settings = step.inputs_in(self._test.step_inputs)
        values = self._values(step, settings)
        runner = step.runner.with_settings(settings) if settings else step.runner

        # Not `async def`: that would create a second coroutine for every item of a batch.
        def run_with_retries(values: dict[str, Any], ctx: StepContext) -> Awaitable[Any]:
            return _retry(runner.run, step, values, ctx)

        if step.batch is None:
            return await run_with_retries(values.all, ctx), {}
        return await _run_items(step.batch.with_settings(settings), run_with_retries, values, ctx)

    def _values(self, step: Step, settings: dict[str, Any]) -> StepValues:
        """Return the values of a step.

        The test's `step_inputs` take precedence over mapped values, and these over the pipeline's inputs.
        A step without a mapping gets the outputs of the steps it needs.
        """
        mapped: dict[str, Any] = {}
        if step.sources:
            for name, path in step.sources.items():
                mapped[name] = path.find(self._names)
        else:
            for other in self._pipeline.steps:
                if other.id in step.after:
                    mapped[other.output_key] = self._names[other.id]
        return StepValues({**self._inputs, **mapped, **settings}, tuple(step.sources), tuple(settings))

    def _emit_answer(self) -> None:
        outputs: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for output in self._pipeline.outputs:
            if self._results[output.step].status != OK:
                missing[output.key] = f"the step {output.step} has no output"
                continue
            try:
                outputs[output.key] = output.source.find(self._names)
            except StepError as error:
                missing[output.key] = str(error)
        answer: dict[str, Any] = {"outputs": outputs}
        if missing:
            answer["missing"] = missing
        self._ctx.emit("answer", answer, self._test.id)


async def _retry(run: RunOnce, step: Step, values: dict[str, Any], ctx: StepContext) -> Any:
    """Run a step, at most 1 + `retry` times. The timeout applies to each attempt."""
    attempt = 0
    while True:
        attempt += 1
        ctx.meter.attempts = max(ctx.meter.attempts, attempt)
        try:
            # asyncio.timeout(None) is valid, but costs time on every call, and most steps have no timeout.
            if step.timeout is None:
                return await run(values, ctx)
            async with asyncio.timeout(step.timeout):
                return await run(values, ctx)
        except TimeoutError:
            # Without a timeout of the step, the process for its code did not start in time.
            limit = f" than its timeout of {step.timeout:g} s" if step.timeout else " to start than it may"
            error = StepError(f"it took longer{limit}", "timeout")
        except StepError as failed:
            error = failed
        if attempt > step.retry:
            raise error


async def _run_items(
    batch: Batch, run: RunOnce, values: StepValues, ctx: StepContext
) -> tuple[list[Any], dict[str, Any]]:
    """Return the outputs of all items in order, None for a failed item. Raises StepError if every item failed."""
    outcomes = await run_batch(batch, run, values, ctx)
    failures = [{"item": index, "error": item.error} for index, item in enumerate(outcomes) if item.error]
    if failures and len(failures) == len(outcomes):
        raise StepError(f"all {len(outcomes)} items failed; the first: {failures[0]['error']}", "failed_items")
    extra: dict[str, Any] = {"items": len(outcomes)}
    if failures:
        extra["failed_items"] = failures
    return [item.output for item in outcomes], extra
