"""`assay memory try`: one conversation through one memory, without a run folder.

    end = try_memory(spec, plan_trial(spec.options), show)

It uses the engine of a run, so that memories that call models have the same retries, time limits and gateway as in an
evaluation. The run's folder is a temporary one.
"""

from __future__ import annotations

import tempfile
from typing import NamedTuple

from msgspec.structs import replace

from assay.core.run_end import FAILED
from assay.core.spec import RunSpec
from assay.core.types import Failure
from assay.runner.loops import run_blocking
from assay.runner.opening import open_suite
from assay.runner.runner import Runner
from assay.suites.memory.snapshots import ItemChange
from assay.suites.memory.test.trial import SUITE, MemoryTryOptions, TrialPlan, TrialSuite, plan_trial
from assay.suites.memory.try_memory import EvidencePlace, QuestionTrial, SessionTrial, Show
from assay.usercode.model_args import with_options_of_arguments

__all__ = [
    "SUITE",
    "EvidencePlace",
    "ItemChange",
    "MemoryTryOptions",
    "QuestionTrial",
    "SessionTrial",
    "TrialEnd",
    "TrialPlan",
    "plan_trial",
    "try_memory",
]


class TrialEnd(NamedTuple):
    """The exit code, and the reason if a model could not be asked."""

    code: int
    reason: str = ""


def try_memory(spec: RunSpec, plan: TrialPlan, show: Show) -> TrialEnd:
    """Try the memory, and pass what happens to `show`.

    The code is 1 if the memory failed, 3 if a model could not be asked, 130 after Ctrl-C, else 0: evidence that is not
    found is a result.
    """
    failures: list[Failure] = []

    def watch(event: SessionTrial | QuestionTrial | Failure) -> None:
        failure = event if isinstance(event, Failure) else None
        if isinstance(event, QuestionTrial):
            failure = event.failure
        if failure is not None:
            failures.append(failure)
        show(event)

    with tempfile.TemporaryDirectory(prefix="assay-try-") as folder:
        own = replace(with_options_of_arguments(spec), output_dir=folder)
        run = run_blocking(lambda: _open(own, plan, watch), computes=True)
    if run.exit_code not in (0, FAILED):
        return TrialEnd(run.exit_code, run.reason)
    return TrialEnd(FAILED if failures else 0)


def _open(spec: RunSpec, plan: TrialPlan, show: Show) -> Runner:
    suite, models = open_suite(spec, lambda connected: TrialSuite(connected, plan, show))
    return Runner(suite, models, (), command=[])
