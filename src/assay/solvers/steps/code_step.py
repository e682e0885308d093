"""A step that runs Python code: the pipeline's own, or one that a test carries."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.solvers.code import Code, CodeError, CodeRunner
from assay.solvers.steps.runner import StepContext, StepFailed, StepRunner

DEFAULT_TIMEOUT = 30.0


class CodeStep(Struct, frozen=True, kw_only=True):
    """Calls the entry function of a piece of code with the step's values.

    `own` runs the pipeline's code, `foreign` code that a test carries. Without `foreign` the latter is refused.
    """

    code: Code
    own: CodeRunner
    foreign: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def limits_itself(self) -> bool:
        """The process in which the code runs must be killed."""
        return True

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Call the entry function with the values."""
        return await run_code(self.own, self.code, values, self.timeout)

    def adapted(self, settings: dict[str, Any]) -> StepRunner:
        """Return the step with the code of a test in place of the pipeline's. It runs in the sandbox."""
        if "code" not in settings:
            return self
        return replace(self, code=carried_code(settings["code"]), own=require_sandbox(self.foreign))


def carried_code(source: Any) -> Code:
    """Return code that stands in a test, with the name that messages use for it."""
    return Code(str(source), "the test's code")


def require_sandbox(foreign: CodeRunner | None) -> CodeRunner:
    """Return the sandbox, if code of tests may run."""
    if foreign is None:
        raise StepFailed("the test carries code, which runs only with --allow-code", "refused")
    return foreign


async def run_code(runner: CodeRunner, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - it kills a process
    """Return what the code returns. Whatever is wrong with it fails the step."""
    try:
        return await runner.run(code, argument, timeout)
    except CodeError as problem:
        raise StepFailed(str(problem), problem.kind) from None
