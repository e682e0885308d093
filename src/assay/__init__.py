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
    from msgspec import Struct as Struct

    from assay.core.case_details import AnswerPair as AnswerPair, CaseDetails as CaseDetails
    from assay.core.errors import (
        CaseFailed as CaseFailed,
        CheckFailed as CheckFailed,
        InputError as InputError,
        ModelError as ModelError,
        Problem as Problem,
        UsageError as UsageError,
    )
    from assay.core.memory import (
        AboutMemory as AboutMemory,
        MemoryItem as MemoryItem,
        Message as Message,
        Query as Query,
        SearchHit as SearchHit,
        options_of as options_of,
    )
    from assay.core.protocols import Context as Context, Scorer as Scorer, ScorerInput as ScorerInput, Solver as Solver
    from assay.core.report import (
        Entry as Entry,
        Interval as Interval,
        Metric as Metric,
        Report as Report,
        Slice as Slice,
        Table as Table,
    )
    from assay.core.roles import CHAT as CHAT, TEXT as TEXT, About as About, Role as Role
    from assay.core.spec import RunSpec as RunSpec, SuiteOptions as SuiteOptions, ask as ask, how as how, score as score
    from assay.core.suite import (
        CaseContent as CaseContent,
        ListedRows as ListedRows,
        Outcome as Outcome,
        Overview as Overview,
        PlannedCalls as PlannedCalls,
        Results as Results,
        Row as Row,
        Rows as Rows,
        RunFacts as RunFacts,
        Suite as Suite,
    )
    from assay.core.suite_files import Match as Match, SuiteFiles as SuiteFiles
    from assay.core.suite_pages import Section as Section, StoredCase as StoredCase, SuitePages as SuitePages
    from assay.core.types import (
        Call as Call,
        Case as Case,
        Failure as Failure,
        Record as Record,
        Request as Request,
        Response as Response,
        Score as Score,
    )
    from assay.files.json_objects import read_structs as read_structs
    from assay.files.schema import refuse as refuse
    from assay.runner.api import (
        arun as arun,
        compare as compare,
        gate as gate,
        run as run,
        spec as spec,
    )
    from assay.runner.evaluate import aevaluate as aevaluate, evaluate as evaluate
    from assay.runner.exports import export as export
    from assay.runner.imports import import_results as import_results
    from assay.runner.merge import merge as merge
    from assay.runner.results import Run as Run, RunCase as RunCase, load as load
    from assay.scoring.judge import ModelJudge as ModelJudge
    from assay.scoring.judge_prompt import OneLabelPrompt as OneLabelPrompt
    from assay.scoring.metric_builders import (
        ClusteredValues as ClusteredValues,
        mean_metric as mean_metric,
        proportion_metric as proportion_metric,
    )
    from assay.store.comparison import ComparisonResult as ComparisonResult
    from assay.store.gate import GateResult as GateResult
    from assay.suites.evaluate.scorers import (
        ScorerLike as ScorerLike,
        exact_match as exact_match,
        judge as judge,
        metric as metric,
        rubric as rubric,
        scorer as scorer,
    )
    from assay.suites.evaluate.subjects import (
        FunctionContext as FunctionContext,
        SyncFunctionContext as SyncFunctionContext,
    )
    from assay.suites.memory.eval.sample import (
        Checkpoint as Checkpoint,
        MemoryPoint as MemoryPoint,
        Sample as Sample,
        SampleQuestion as SampleQuestion,
        SampleSession as SampleSession,
        SampleTurn as SampleTurn,
    )
    from assay.suites.memory.test.conversation import (
        Conversation as Conversation,
        ConversationQuestion as ConversationQuestion,
        ConversationSession as ConversationSession,
    )
    from assay.suites.memory.test.pipeline_caller import PipelineCaller as PipelineCaller
    from assay.suites.pipeline.testset.case import TestCase as TestCase
    from assay.suites.pipeline.testset.loader import (
        TestsetLoader as TestsetLoader,
        filter_by_tags as filter_by_tags,
        load_testset as load_testset,
        load_testset_dict as load_testset_dict,
        validate_testset as validate_testset,
    )

__version__ = "0.1.0"

# The module of each public name. `__getattr__` imports a name on first use, so that `assay --help` starts fast.
_MODULES = {
    "assay.runner.api": "arun compare gate run spec",
    "assay.core.case_details": "AnswerPair CaseDetails",
    "assay.core.roles": "CHAT TEXT About Role",
    "assay.core.errors": "CaseFailed CheckFailed InputError ModelError Problem UsageError",
    "assay.core.memory": "AboutMemory MemoryItem Message Query SearchHit options_of",
    "assay.core.protocols": "Context Scorer ScorerInput Solver",
    "assay.files.json_objects": "read_structs",
    "assay.core.report": "Entry Interval Metric Report Slice Table",
    "assay.files.schema": "refuse",
    "assay.core.spec": "RunSpec SuiteOptions ask how score",
    "assay.core.suite": "CaseContent ListedRows Outcome Overview PlannedCalls Results Row Rows RunFacts Suite",
    "assay.core.suite_files": "Match SuiteFiles",
    "assay.core.suite_pages": "StoredCase Section SuitePages",
    "assay.core.types": "Call Case Failure Record Request Response Score",
    "assay.runner.evaluate": "aevaluate evaluate",
    "assay.runner.exports": "export",
    "assay.runner.imports": "import_results",
    "assay.runner.merge": "merge",
    "assay.runner.results": "Run RunCase load",
    "assay.scoring.judge_prompt": "OneLabelPrompt",
    "assay.scoring.metric_builders": "ClusteredValues mean_metric proportion_metric",
    "assay.scoring.judge": "ModelJudge",
    "assay.store.comparison": "ComparisonResult",
    "assay.store.gate": "GateResult",
    "assay.suites.evaluate.scorers": "ScorerLike exact_match judge metric rubric scorer",
    "assay.suites.evaluate.subjects": "FunctionContext SyncFunctionContext",
    "assay.suites.memory.eval.sample": "Checkpoint MemoryPoint Sample SampleQuestion SampleSession SampleTurn",
    "assay.suites.memory.test.conversation": "Conversation ConversationQuestion ConversationSession",
    "assay.suites.memory.test.pipeline_caller": "PipelineCaller",
    "assay.suites.pipeline.testset.case": "TestCase",
    "assay.suites.pipeline.testset.loader": "TestsetLoader filter_by_tags load_testset load_testset_dict "
    "validate_testset",
    "msgspec": "Struct",  # for the rows of a user's own suite
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [*sorted(_MODULE_OF), "__version__"]  # noqa: PLE0604 - the keys of a table


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion in a notebook: most are not imported yet."""
    return __all__
