"""`assay memory eval`: memories over sessions, judged in six dimensions, in the format of eval_framework."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from assay.core.errors import Problem, UsageError
from assay.core.spec import RunSpec, listed
from assay.scoring.panel import judge_name, with_provider
from assay.suites.memory_eval.options import MemoryEvalOptions as Options
from assay.suites.memory_eval.plan import MemoryEvalPlan

__all__ = ["Options", "check", "has_samples", "normalise", "own_run", "plan"]


def normalise(spec: RunSpec) -> RunSpec:
    """Lists may be written `a,b`; model and judge come from the environment where no flag names them."""
    options = spec.options
    assert isinstance(options, Options)
    if options.no_judge and spec.judge:
        raise UsageError(f"--no-judge and --judge {spec.judge} do not go together; leave one of them out")
    lists = {name: listed(getattr(options, name)) for name in ("baseline", "sample")}
    named = os.environ.get("OPENAI_MODEL", "")
    model = spec.model or ("" if options.eval_only or not named else with_provider(named))
    judge = None if options.no_judge else judge_name(spec.judge)
    return msgspec.structs.replace(
        spec, model=model, judge=judge, options=msgspec.structs.replace(options, **lists)
    )


def plan(spec: RunSpec) -> MemoryEvalPlan:
    """Resolve memories and samples, or the files that are judged; raises before anything is written."""
    return MemoryEvalPlan(spec)


def own_run(spec: RunSpec) -> Path | None:
    """With `--eval-only`, the run whose files are judged; None where no run wrote them as they are."""
    from assay.suites.memory_eval import filed, pipelines

    options = spec.options
    assert isinstance(options, Options)
    if not options.eval_only or spec.fresh:
        return None
    output = Path(spec.output_dir)
    own = filed.own_run(output, pipelines.folders_of(output, listed(options.baseline)))
    return own.folder if own else None


def check(path: Path) -> list[Problem]:
    """Every problem of samples, also those that a run would bear."""
    from assay.suites.memory_eval.checking import check_samples

    return check_samples(path)


def has_samples(path: Path) -> bool:
    """Whether a file or a folder holds samples, by the keys of the first ones."""
    from assay.suites.memory_eval import sources

    return sources.has_samples(path)
