"""A step that runs Python code: the pipeline's own, or one that a test carries."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.solvers.code import Code, CodeProblem, CodeRunner
from assay.solvers.steps.failing import StepFailed
from assay.solvers.steps.running import Runner, StepContext

DEFAULT_TIMEOUT = 30.0


class CodeStep(Struct, frozen=True, kw_only=True):
    """`own` runs what the pipeline file says, `foreign` what a test says; without it that is refused."""

    code: Code
    own: CodeRunner
    foreign: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Call the entry function with the values."""
        return await run_code(self.own, self.code, values, self.timeout)

    def adapted(self, told: dict[str, Any]) -> Runner:
        """The code of a test takes the place of the pipeline's, in the sandbox."""
        if "code" not in told:
            return self
        return replace(self, code=carried(told["code"]), own=allowed(self.foreign))


def carried(source: Any) -> Code:
    """Code that stands in a test."""
    return Code(str(source), "the test's code")


def allowed(foreign: CodeRunner | None) -> CodeRunner:
    """The sandbox, if code of tests may run."""
    if foreign is None:
        raise StepFailed("the test carries code, which runs only with --allow-code", "refused")
    return foreign


async def run_code(runner: CodeRunner, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - it kills a process
    """What the code returns; whatever is wrong with it fails the step."""
    try:
        return await runner.run(code, argument, timeout)
    except CodeProblem as problem:
        raise StepFailed(str(problem), problem.kind) from None
