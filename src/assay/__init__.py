"""Evaluate LLM systems: models on tasks, pipelines, LLM functions and agent memories.

`evaluate(rows, answer=function, score=[...])` evaluates a function, a prompt or a model from Python.
`run(spec)` and `await arun(spec)` start or continue a run; `spec(suite, **options)` builds what they take.
A suite of one's own is a subclass of `Suite`; examples/suites/quiz.py is a whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msgspec import Struct

    from assay.api import Run, RunCase, aevaluate, arun, compare, evaluate, load, run, spec
    from assay.core.connect import Role
    from assay.core.errors import CaseFailed, CheckFailed, InputError, ModelError, Problem, UsageError
    from assay.core.protocols import Context, Scorer, Solver, View
    from assay.core.records import read_structs
    from assay.core.report import Entry, Metric, Report, Slice, Table
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
    from assay.core.types import Call, Failure, Record, Request, Score
    from assay.suites.evaluate.scorers import exact_match, judge, metric, rubric, scorer

__version__ = "0.1.0"

# Where each public name stands. They are imported when they are used: `assay --help` needs none of them.
_MODULES = {
    "assay.api": ("Run", "RunCase", "aevaluate", "arun", "compare", "evaluate", "load", "run", "spec"),
    "assay.core.connect": ("Role",),
    "assay.core.errors": ("CaseFailed", "CheckFailed", "InputError", "ModelError", "Problem", "UsageError"),
    "assay.core.protocols": ("Context", "Scorer", "Solver", "View"),
    "assay.core.records": ("read_structs",),
    "assay.core.report": ("Entry", "Metric", "Report", "Slice", "Table"),
    "assay.core.schema": ("refuse",),
    "assay.core.spec": ("RunSpec", "SuiteOptions", "ask", "how", "score"),
    "assay.core.suite": (
        *("CaseContent", "CaseView", "ListedRows", "Match", "Outcome", "Overview", "PlannedCalls"),
        *("Results", "Row", "Rows", "RunFacts", "Section", "Suite"),
    ),
    "assay.core.types": ("Call", "Failure", "Record", "Request", "Score"),
    "assay.suites.evaluate.scorers": ("exact_match", "judge", "metric", "rubric", "scorer"),
    "msgspec": ("Struct",),  # the rows of a suite of one's own are structs
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "Call",
    "CaseContent",
    "CaseFailed",
    "CaseView",
    "CheckFailed",
    "Context",
    "Entry",
    "Failure",
    "InputError",
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
    "Section",
    "Slice",
    "Solver",
    "Struct",
    "Suite",
    "SuiteOptions",
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
    "how",
    "judge",
    "load",
    "metric",
    "read_structs",
    "refuse",
    "rubric",
    "run",
    "score",
    "scorer",
    "spec",
]


def __getattr__(name: str) -> Any:
    """A public name, imported from its module."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_OF[name]), name)
