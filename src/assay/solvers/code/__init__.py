"""Running Python code: the pipeline's own in processes of its own, that of tests in a sandbox."""

from assay.solvers.code.own import OwnCode
from assay.solvers.code.problem import Code, CodeProblem, CodeRunner
from assay.solvers.code.sandbox import Sandbox

__all__ = ["Code", "CodeProblem", "CodeRunner", "OwnCode", "Sandbox"]
