"""Runs the tests of a case through a pipeline: steps as a graph, each output kept, each failure its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import CaseFailed
from assay.core.expressions import Expression
from assay.core.protocols import Context, Solver
from assay.core.types import Failure
from assay.solvers.steps.batching import BATCH_ITEMS, Batch, Run, Values, run_batch
from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.pipeline import AGGREGATE, Pipeline, Step, StepsInputs, TestInputs
from assay.solvers.steps.running import Meter, StepContext

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


class StepsSolver(Solver):
    """Emits for each test a `step` (or `aggregation`) a step, then its `answer`; or that it was `skipped`."""

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        self._pipelines = pipelines

    async def solve(self, inputs: StepsInputs, ctx: Context) -> None:
        """Test after test; one that depends on another waits for its verdict."""
        pipeline = self._pipelines[inputs.variant]
        failures: list[Failure] = []
        skipped: set[str] = set()
        verdicts: dict[str, bool] = {}

        async def passed(other: str) -> bool:
            if other not in verdicts:  # many tests may depend on the same one
                verdicts[other] = await ctx.passed(other)
            return verdicts[other]

        for test in inputs.tests:
            if why := await _reason_to_skip(test, inputs.variant, skipped, passed):
                skipped.add(test.id)
                ctx.emit("skipped", {"why": why}, test.id)
                continue
            if failed := await TestRun(pipeline, test, ctx).run():
                failures.append(failed)
        if failures:
            raise CaseFailed(failures[0])


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


class Result(Struct, frozen=True, omit_defaults=True):
    """What came of one step, as its record holds it."""

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

    __test__ = False

    def __init__(self, pipeline: Pipeline, test: TestInputs, ctx: Context) -> None:
        self._pipeline = pipeline
        self._test = test
        self._ctx = ctx
        self._inputs = {**dict.fromkeys(pipeline.optional, ""), **test.inputs}
        if test.batch_items is not None:
            self._inputs.setdefault(BATCH_ITEMS, test.batch_items)
        self._names: dict[str, Any] = {**self._inputs, "inputs": test.inputs}
        self._results: dict[str, Result] = {}

    async def run(self) -> Failure | None:
        """Every step that can run; then the answer. The first required step that failed is the failure."""
        if self._pipeline.straight:
            for step in self._pipeline.steps:
                await self._take(step)
        else:
            await self._side_by_side()
        self._answer()
        return self._failure()

    async def _side_by_side(self) -> None:
        """Each step begins as soon as what it waits for has ended."""
        ended = {step.id: asyncio.Event() for step in self._pipeline.steps}

        async def in_turn(step: Step) -> None:
            try:
                for other in step.after:
                    await ended[other].wait()
                if all(other in self._results for other in step.after):  # else a model failed: the case ends
                    await self._take(step)
            finally:
                ended[step.id].set()

        await self._ctx.map(in_turn, self._pipeline.steps)

    async def _take(self, step: Step) -> None:
        """Run one step, unless what it needs has no output; keep and emit what came of it."""
        missing = [other for other in step.after if self._results[other].status != OK]
        if missing:
            named = ", ".join(sorted(missing))
            result = Result(SKIPPED, error=f"it needs {named}, which has no output")
        else:
            result = await self._result(step)
        self._results[step.id] = result
        if result.status == OK:
            self._names[step.id] = result.output
            self._names[step.output_key] = result.output
        kind = "aggregation" if step.kind == AGGREGATE else "step"
        self._ctx.emit(kind, msgspec.to_builtins(result), f"{self._test.id}/{step.id}")

    async def _result(self, step: Step) -> Result:
        meter, started = Meter(), time.perf_counter()
        error, done = StepFailed(""), None
        try:
            done = await self._done(step, StepContext(self._ctx, meter))
        except StepFailed as failed:
            error = failed
        took = time.perf_counter() - started
        seconds = took - meter.waited if step.batch is None else max(took, meter.longest)
        used: dict[str, Any] = {
            "attempts": meter.attempts,
            "calls": meter.calls,
            "tokens": [meter.input, meter.output] if meter.input or meter.output else [],
            "seconds": round(max(seconds, 0.0), 6),
        }
        if done is None:
            return Result(FAILED, kind=error.kind, error=str(error), **used)
        output, extra = done
        return Result(OK, output, **extra, **used)

    async def _done(self, step: Step, ctx: StepContext) -> tuple[Any, dict[str, Any]]:
        """The output, and what a batch has to say of its items. In a batch each item has its own retries."""
        given = self._test.step_inputs
        told = {**(given.get(step.output_key) or {}), **(given.get(step.id) or {})} if given else {}
        values = self._values(step, told)
        runner = step.runner.adapted(told) if told else step.runner
        if step.batch is None:
            return await _again(runner.run, step, values.all, ctx), {}
        batch = step.batch.adapted(told)
        return await _over_items(batch, lambda one, ctx: _again(runner.run, step, one, ctx), values, ctx)

    def _values(self, step: Step, told: dict[str, Any]) -> Values:
        """The test's word for this step, over what is mapped, over the pipeline's inputs."""
        if step.sources:
            mapped = {name: source.find(self._names) for name, source in step.sources.items()}
        else:
            mapped = {
                other.output_key: self._names[other.id]
                for other in self._pipeline.steps
                if other.id in step.after
            }
        return Values({**self._inputs, **mapped, **told}, tuple(step.sources), tuple(told))

    def _answer(self) -> None:
        found, missing = {}, {}
        for output in self._pipeline.outputs:
            if self._results[output.step].status != OK:
                missing[output.key] = f"the step {output.step} has no output"
                continue
            try:
                found[output.key] = output.source.find(self._names)
            except StepFailed as failed:
                missing[output.key] = str(failed)
        answer = {"outputs": found} | ({"missing": missing} if missing else {})
        self._ctx.emit("answer", answer, self._test.id)

    def _failure(self) -> Failure | None:
        required = [step for step in self._pipeline.steps if step.required]
        for status in (FAILED, SKIPPED):
            for step in required:
                result = self._results[step.id]
                if result.status == status:
                    return Failure("failed_step", f"step {step.id}: {result.error}", self._test.id)
        return None


async def _again(run: Run, step: Step, values: dict[str, Any], ctx: StepContext) -> Any:
    """Run it, once more for each retry that is left; each run has the step's timeout."""
    attempt = 0
    while True:
        attempt += 1
        ctx.meter.attempts = max(ctx.meter.attempts, attempt)
        try:
            async with asyncio.timeout(step.timeout):
                return await run(values, ctx)
        except TimeoutError:
            limit = f" than its timeout of {step.timeout:g} s" if step.timeout else ""
            error = StepFailed(f"it took longer{limit or ' to start than it may'}", "timeout")
        except StepFailed as failed:
            error = failed
        if attempt > step.retry:
            raise error


async def _over_items(
    batch: Batch, run: Run, values: Values, ctx: StepContext
) -> tuple[list[Any], dict[str, Any]]:
    """All items' outputs in order; a failed one is null. A batch of which every item failed has failed."""
    found = await run_batch(batch, run, values, ctx)
    failed = [{"item": at, "error": item.error} for at, item in enumerate(found) if item.error]
    if failed and len(failed) == len(found):
        raise StepFailed(f"all {len(found)} items failed; the first: {failed[0]['error']}", "failed_items")
    extra: dict[str, Any] = {"items": len(found)} | ({"failed_items": failed} if failed else {})
    return [item.output for item in found], extra
