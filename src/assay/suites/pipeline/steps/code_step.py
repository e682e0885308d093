"""A step that runs Python or JavaScript code from the pipeline file, or from a test's `step_inputs`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.suites.pipeline.code import Code, CodeError, CodeRunner, Language, language_problem
from assay.suites.pipeline.steps.runner import StepContext, StepError, StepRunner

DEFAULT_TIMEOUT = 30.0  # in seconds, for one call of the entry function


class CodeStep(Struct, frozen=True, kw_only=True):
    """Calls the entry function of the code with the step's values.

    `runner` runs the code of the pipeline file. `sandbox` runs code from a test; without a sandbox
    (`--allow-code` is not set) the step refuses such code.
    """

    code: Code
    runner: CodeRunner
    sandbox: CodeRunner | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def enforces_timeout(self) -> bool:
        """True: after a timeout, the runner kills the process in which the code runs."""
        return True

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Call the entry function with the values."""
        return await run_code(self.runner, self.code, values, self.timeout)

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return a step that runs the test's code in the sandbox, or `self` if the test has no code.

        Raises StepError if `--allow-code` is not set.
        """
        if "code" not in settings:
            return self
        code = testset_code(settings["code"], settings.get("language"), self.code.language)
        return replace(self, code=code, runner=require_sandbox(self.sandbox))


def testset_code(source: Any, language: Any, step_language: Language) -> Code:
    """Return the code of a test, with the name that error messages use.

    Its language is that of the step if the test names none. Raises StepError for an unknown language.
    """
    if problem := language_problem(language):
        raise StepError(problem, "bad_setting")
    return Code(str(source), "the test's code", step_language if language is None else language)


def require_sandbox(sandbox: CodeRunner | None) -> CodeRunner:
    """Return the sandbox. Raises StepError if there is none, because `--allow-code` is not set."""
    if sandbox is None:
        raise StepError("the test carries code, which runs only with --allow-code", "refused")
    return sandbox


async def run_code(runner: CodeRunner, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - it kills a process
    """Return the value of the code's entry function. A CodeError becomes a StepError of the same kind."""
    try:
        return await runner.run(code, argument, timeout)
    except CodeError as error:
        raise StepError(str(error), error.kind) from None
