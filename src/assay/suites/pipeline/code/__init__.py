"""Runs code: the pipeline's own Python in child processes, Python of a testset in a sandbox, JavaScript in an engine.

runner: CodeRunner = ProcessRunner(workers=4, folder=pipeline_folder)  # or Sandbox()
value = await runner.run(Code(source, "pipeline.yaml:12 code"), argument, timeout=10)
await runner.close()
"""

from assay.suites.pipeline.code.javascript import JavaScriptRunner, javascript_problem, require_engine
from assay.suites.pipeline.code.process_runner import ProcessRunner
from assay.suites.pipeline.code.runner import (
    LANGUAGES,
    Code,
    CodeError,
    CodeRunner,
    Language,
    RunnerByLanguage,
    entry_problem,
    language_problem,
)
from assay.suites.pipeline.code.sandbox import Sandbox

__all__ = [
    "LANGUAGES",
    "Code",
    "CodeError",
    "CodeRunner",
    "JavaScriptRunner",
    "Language",
    "ProcessRunner",
    "RunnerByLanguage",
    "Sandbox",
    "entry_problem",
    "javascript_problem",
    "language_problem",
    "require_engine",
]
