"""Runs the tests of a case through a pipeline. Steps form a graph; each output and each failure is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import CaseFailed
from assay.core.expressions import Expression
from assay.core.protocols import Context, Solver
from assay.core.types import Failure
from assay.solvers.code import CodeRunner
from assay.solvers.steps.batch import BATCH_ITEMS, Batch, RunOnce, StepValues, run_batch
from assay.solvers.steps.pipeline import AGGREGATE, Pipeline, Step, StepsInputs, TestInputs
from assay.solvers.steps.runner import Meter, StepContext, StepFailed

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class StepsSolver(Solver):
    """Emits a `step` or `aggregation` record for each step of a test, then its `answer`; or `skipped`."""

    def __init__(self, pipelines: Mapping[str, Pipeline], code_runners: Sequence[CodeRunner] = ()) -> None:
        self._pipelines = pipelines
        self._code_runners = code_runners

    async def solve(self, inputs: StepsInputs, ctx: Context) -> None:
        """Run test after test. One that depends on another runs if that one passed."""
        pipeline = self._pipelines[inputs.variant]
        failures: list[Failure] = []
        skipped: set[str] = set()
        verdicts: dict[str, bool] = {}

        async def passed(other: str) -> bool:
            if other not in verdicts:  # many tests may depend on the same one
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
        """End the processes in which code ran."""
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
    """The outcome of one step, as its record holds it."""

    status: str
    output: Any = None
    kind: str = ""
    error: str = ""
    failed_items: list[dict[str, Any]] = []
    items: int | None = None
    attempts: int = 1
    calls: int = 0
    tokens: list[int] = []
    seconds: float = 0.0


class TestRun:
    """One test on its way through the pipeline."""

    __test__ = False  # pytest collects classes of this name

    def __init__(self, pipeline: Pipeline, test: TestInputs, ctx: Context) -> None:
        self._pipeline = pipeline
        self._test = test
        self._ctx = ctx
        self._inputs = {**dict.fromkeys(pipeline.optional, ""), **test.inputs}
        if test.batch_items is not None:
            self._inputs.setdefault(BATCH_ITEMS, test.batch_items)
        self._names: dict[str, Any] = {**self._inputs, "inputs": test.inputs}
        self._results: dict[str, StepResult] = {}

    async def run(self) -> Failure | None:
        """Run every step that can run, then emit the answer. Returns the first required step's failure."""
        if self._pipeline.straight:
            for step in self._pipeline.steps:
                await self._run_step(step)
        else:
            await self._run_side_by_side()
        self._emit_answer()
        required = [step for step in self._pipeline.steps if step.required]
        for status in (FAILED, SKIPPED):
            for step in required:
                result = self._results[step.id]
                if result.status == status:
                    return Failure("failed_step", f"step {step.id}: {result.error}", self._test.id)
        return None

    async def _run_side_by_side(self) -> None:
        """Each step begins as soon as the steps it waits for have ended."""
        ended = {step.id: asyncio.Event() for step in self._pipeline.steps}

        async def run_in_turn(step: Step) -> None:
            try:
                for other in step.after:
                    await ended[other].wait()
                # A step without a result met a failed model, which ends the case.
                if all(other in self._results for other in step.after):
                    await self._run_step(step)
            finally:
                ended[step.id].set()

        await self._ctx.map(run_in_turn, self._pipeline.steps)

    async def _run_step(self, step: Step) -> None:
        """Run one step, unless a step it needs has no output; keep and emit the result."""
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
        kind = "aggregation" if step.kind == AGGREGATE else "step"
        self._ctx.emit(kind, msgspec.to_builtins(result), f"{self._test.id}/{step.id}")

    async def _measure(self, step: Step) -> StepResult:
        """Run a step and count what it cost. Waiting for a permit is not the step's own time."""
        meter, started = Meter(), time.perf_counter()
        output: Any = None
        extra: dict[str, Any] = {}
        error: StepFailed | None = None
        try:
            output, extra = await self._output(step, StepContext(self._ctx, meter))
        except StepFailed as failed:
            error = failed
        elapsed = time.perf_counter() - started
        # The items of a batch wait beside each other, so their waits cannot be subtracted.
        seconds = elapsed - meter.waited if step.batch is None else max(elapsed, meter.longest)
        cost: dict[str, Any] = {
            "attempts": meter.attempts,
            "calls": meter.calls,
            "tokens": [meter.input, meter.output] if meter.input or meter.output else [],
            "seconds": round(max(seconds, 0.0), 6),
        }
        if error is not None:
            return StepResult(FAILED, kind=error.kind, error=str(error), **cost)
        return StepResult(OK, output, **extra, **cost)

    async def _output(self, step: Step, ctx: StepContext) -> tuple[Any, dict[str, Any]]:
        """Return the output, and a batch's counts of its items. In a batch each item has its own retries."""
        settings: dict[str, Any] = {}
        if self._test.step_inputs:
            by_step = self._test.step_inputs
            settings = {**(by_step.get(step.output_key) or {}), **(by_step.get(step.id) or {})}
        values = self._values(step, settings)
        runner = step.runner.adapted(settings) if settings else step.runner

        # No coroutine of its own: a batch calls this for every item.
        def run_with_retries(values: dict[str, Any], ctx: StepContext) -> Awaitable[Any]:
            return _retry(runner.run, step, values, ctx)

        if step.batch is None:
            return await run_with_retries(values.all, ctx), {}
        return await _run_items(step.batch.adapted(settings), run_with_retries, values, ctx)

    def _values(self, step: Step, settings: dict[str, Any]) -> StepValues:
        """What the test gives this step wins over mapped values, and those over the pipeline's inputs."""
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
            except StepFailed as error:
                missing[output.key] = str(error)
        answer: dict[str, Any] = {"outputs": outputs}
        if missing:
            answer["missing"] = missing
        self._ctx.emit("answer", answer, self._test.id)


async def _retry(run: RunOnce, step: Step, values: dict[str, Any], ctx: StepContext) -> Any:
    """Run a step, again for each retry that is left. Each attempt has the step's whole timeout."""
    attempt = 0
    while True:
        attempt += 1
        ctx.meter.attempts = max(ctx.meter.attempts, attempt)
        try:
            if step.timeout is None:  # most steps: a timeout that never ends costs time itself
                return await run(values, ctx)
            async with asyncio.timeout(step.timeout):
                return await run(values, ctx)
        except TimeoutError:
            limit = f" than its timeout of {step.timeout:g} s" if step.timeout else " to start than it may"
            error = StepFailed(f"it took longer{limit}", "timeout")
        except StepFailed as failed:
            error = failed
        if attempt > step.retry:
            raise error


async def _run_items(
    batch: Batch, run: RunOnce, values: StepValues, ctx: StepContext
) -> tuple[list[Any], dict[str, Any]]:
    """Return all items' outputs in order; a failed one is null. If every item failed, the step fails."""
    outcomes = await run_batch(batch, run, values, ctx)
    failed = [{"item": place, "error": item.error} for place, item in enumerate(outcomes) if item.error]
    if failed and len(failed) == len(outcomes):
        raise StepFailed(f"all {len(outcomes)} items failed; the first: {failed[0]['error']}", "failed_items")
    extra: dict[str, Any] = {"items": len(outcomes)}
    if failed:
        extra["failed_items"] = failed
    return [item.output for item in outcomes], extra
