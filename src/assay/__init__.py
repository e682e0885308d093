"""Evaluate LLM systems: models on tasks, pipelines, LLM functions and agent memories.

    run = assay.evaluate(rows, answer=function, score=[assay.exact_match("answer")])

`evaluate` evaluates a function, a prompt or a model over rows. The other suites run from a spec:

    spec = assay.spec("task", tasks=["t.yaml"], model="local/smollm2")
    run = assay.run(spec)           # or: await assay.arun(spec)

`run` starts a run, or continues the run that has the same spec. To add a suite, subclass `Suite`:
examples/suites/quiz.py is a complete one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msgspec import Struct

    from assay.api import (
        Run,
        RunCase,
        arun,
        compare,
        export,
        gate,
        import_results,
        load,
        merge,
        run,
        spec,
    )
    from assay.core.connect import Role
    from assay.core.errors import CaseFailed, CheckFailed, InputError, ModelError, Problem, UsageError
    from assay.core.protocols import Context, Scorer, Solver, View
    from assay.core.records import read_structs
    from assay.core.report import Entry, Interval, Metric, Report, Slice, Table
    from assay.core.schema import refuse
    from assay.core.spec import RunSpec, SuiteOptions, ask, how, score
    from assay.core.suite import (
        CaseContent,
        CaseView,
        ListedRows,
        Match,
        Outcome,
        Overview,
        PlannedCalls,
        Results,
        Row,
        Rows,
        RunFacts,
        Section,
        Suite,
    )
    from assay.core.types import Call, Case, Failure, Record, Request, Score
    from assay.evaluation import aevaluate, evaluate
    from assay.scoring.metric_builders import ClusteredValues, mean_metric, proportion_metric
    from assay.store.comparison import ComparisonResult
    from assay.store.gate import GateResult
    from assay.suites.evaluate.scorers import ScorerLike, exact_match, judge, metric, rubric, scorer
    from assay.suites.evaluate.subjects import FunctionContext, SyncFunctionContext

__version__ = "0.1.0"

# The module of each public name. `__getattr__` imports a name on first use, so that `assay --help` starts fast.
_MODULES = {
    "assay.api": (
        "Run",
        "RunCase",
        "arun",
        "compare",
        "export",
        "gate",
        "import_results",
        "load",
        "merge",
        "run",
        "spec",
    ),
    "assay.core.connect": ("Role",),
    "assay.core.errors": ("CaseFailed", "CheckFailed", "InputError", "ModelError", "Problem", "UsageError"),
    "assay.core.protocols": ("Context", "Scorer", "Solver", "View"),
    "assay.core.records": ("read_structs",),
    "assay.core.report": ("Entry", "Interval", "Metric", "Report", "Slice", "Table"),
    "assay.core.schema": ("refuse",),
    "assay.core.spec": ("RunSpec", "SuiteOptions", "ask", "how", "score"),
    "assay.core.suite": (
        *("CaseContent", "CaseView", "ListedRows", "Match", "Outcome", "Overview", "PlannedCalls"),
        *("Results", "Row", "Rows", "RunFacts", "Section", "Suite"),
    ),
    "assay.core.types": ("Call", "Case", "Failure", "Record", "Request", "Score"),
    "assay.evaluation": ("aevaluate", "evaluate"),
    "assay.scoring.metric_builders": ("ClusteredValues", "mean_metric", "proportion_metric"),
    "assay.store.comparison": ("ComparisonResult",),
    "assay.store.gate": ("GateResult",),
    "assay.suites.evaluate.scorers": ("ScorerLike", "exact_match", "judge", "metric", "rubric", "scorer"),
    "assay.suites.evaluate.subjects": ("FunctionContext", "SyncFunctionContext"),
    "msgspec": ("Struct",),  # for the rows of a user's own suite
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "Call",
    "Case",
    "CaseContent",
    "CaseFailed",
    "CaseView",
    "CheckFailed",
    "ClusteredValues",
    "ComparisonResult",
    "Context",
    "Entry",
    "Failure",
    "FunctionContext",
    "GateResult",
    "InputError",
    "Interval",
    "ListedRows",
    "Match",
    "Metric",
    "ModelError",
    "Outcome",
    "Overview",
    "PlannedCalls",
    "Problem",
    "Record",
    "Report",
    "Request",
    "Results",
    "Role",
    "Row",
    "Rows",
    "Run",
    "RunCase",
    "RunFacts",
    "RunSpec",
    "Score",
    "Scorer",
    "ScorerLike",
    "Section",
    "Slice",
    "Solver",
    "Struct",
    "Suite",
    "SuiteOptions",
    "SyncFunctionContext",
    "Table",
    "UsageError",
    "View",
    "__version__",
    "aevaluate",
    "arun",
    "ask",
    "compare",
    "evaluate",
    "exact_match",
    "export",
    "gate",
    "how",
    "import_results",
    "judge",
    "load",
    "mean_metric",
    "merge",
    "metric",
    "proportion_metric",
    "read_structs",
    "refuse",
    "rubric",
    "run",
    "score",
    "scorer",
    "spec",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion in a notebook: most are not imported yet."""
    return __all__
