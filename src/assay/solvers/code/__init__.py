"""Runs Python code: the pipeline's own code in child processes, code from a testset in a sandbox.

runner: CodeRunner = ProcessRunner(workers=4, folder=pipeline_folder)  # or Sandbox()
value = await runner.run(Code(source, "pipeline.yaml:12 code"), argument, timeout=10)
await runner.close()
"""

from assay.solvers.code.process_runner import ProcessRunner
from assay.solvers.code.runner import Code, CodeError, CodeRunner
from assay.solvers.code.sandbox import Sandbox

__all__ = ["Code", "CodeError", "CodeRunner", "ProcessRunner", "Sandbox"]
