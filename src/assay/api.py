"""What Python code and the command line can ask of assay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core import registry
from assay.core.connect import About
from assay.core.errors import Problem, UsageError
from assay.core.events import Notify
from assay.core.report import Report
from assay.core.spec import RunSpec, SuiteOptions, build
from assay.core.suite import Match, Overview, Section
from assay.evaluation import aevaluate, evaluate
from assay.journal.folder import Summary
from assay.rescore import Rescore
from assay.results import Run, RunCase
from assay.runner import open_run, run_blocking
from assay.store.comparison import Compared
from assay.store.comparison import compare as compare_runs
from assay.store.runs import find_run, state_of
from assay.suites import find_suite, suite_names

if TYPE_CHECKING:
    from assay.store.hop import BaseDataStore

__all__ = [
    "Run",
    "RunCase",
    "aevaluate",
    "arun",
    "check",
    "compare",
    "convert",
    "evaluate",
    "instead_of_run",
    "load",
    "options_of",
    "overview",
    "providers",
    "pull_model",
    "recognise",
    "rescore",
    "run",
    "spec",
]


def run(spec: RunSpec, observers: Sequence[Notify] = ()) -> Run:
    """Start or continue the run that this spec means, and wait for it. Ctrl-C and SIGTERM stop it kindly.

    Raises on bad input, before anything is written. Works in a running event loop, too, as in a notebook.
    """
    return run_blocking(lambda: open_run(spec, observers))


async def arun(spec: RunSpec, observers: Sequence[Notify] = ()) -> Run:
    """`run` in the caller's event loop. It installs no signal handlers; cancelling it stops the run kindly."""
    return await open_run(spec, observers).start_or_show()


def rescore(
    name: str,
    tasks: Sequence[str] = (),
    observers: Sequence[Notify] = (),
    say: Callable[[str], object] = lambda _: None,
) -> Run:
    """Grade a finished run anew, with these task files in place of its own; nothing is asked."""
    again = Rescore(name, tasks, observers)
    say(again.announcement)
    return run_blocking(lambda: again.runner)


def overview(spec: RunSpec) -> Overview:
    """What a run would ask, of whom and how often; nothing is asked or written."""

    async def look() -> Overview:
        runner = open_run(spec, asks=False)
        try:
            return runner.suite.overview(runner.suite.rows())
        finally:
            await runner.close()

    return asyncio.run(look())


def instead_of_run(spec: RunSpec) -> Report | Sequence[Section] | None:
    """What the options ask for instead of a run, such as a list of tasks; None where they ask for a run."""
    return find_suite(spec.suite).instead_of_run(spec)


def options_of(suite: str) -> type[SuiteOptions]:
    """The options struct of a suite."""
    return find_suite(suite).Options


def spec(suite: str, **values: Any) -> RunSpec:
    """A spec from plain values: `spec("task", tasks=["t.yaml"], model="local/smollm2")`."""
    return build(suite, options_of(suite), values)


def load(name: str | Path) -> Run:
    """A run that exists, by its folder or name; nothing is asked."""
    state = state_of(find_run(str(name)))
    summary = state.summary or Summary(
        state=state.state,
        score="",
        scorers=[],
        total=state.info.total,
        ok=state.done,
        subject_error=0,
        infra_error=0,
        exit_code=3,
        seconds=0.0,
        spent={},
        this_start={},
        files=[],
    )
    return Run(state.folder, state.info, summary, summary.exit_code, asked=False)


def compare(names: Sequence[str | Path], flips: int = 10) -> Compared:
    """The first of these runs, each RUN or RUN@SUBJECT, with every other one; nothing is asked."""
    return compare_runs([str(name) for name in names], flips)


def pull_model(name: str, say: Callable[[str], None]) -> Path:
    """Fetch an embedded model's weights, unless they are here."""
    from assay.models.llama.weights import pull_weights

    return pull_weights(name, say)


def check(path: Path, beside: Path | None = None, suite: str = "") -> list[Problem]:
    """Every problem of a file, as the suite sees it that is named or that recognises the file.

    `beside` is another file that it belongs to: the pipeline of a testset.
    """
    return find_suite(suite or recognise(path, beside)).check(path, beside)


def recognise(path: Path, beside: Path | None = None) -> str:
    """The name of the suite that reads a file. Raises UsageError where two are equally sure, or none is."""
    if beside is not None:
        return "pipeline"
    matches = {name: find_suite(name).recognises(path) for name in suite_names()}
    best = max(matches.values())
    names = [name for name, match in matches.items() if match == best]
    if best == Match.NO:
        raise UsageError(f"no suite reads {path}; --as SUITE names one of {', '.join(matches)}")
    if len(names) > 1:
        raise UsageError(f"{path} could be read by {' or '.join(names)}; --as SUITE decides")
    return names[0]


def convert(path: Path, to: str = "v2", output: Path | None = None) -> bytes:
    """A testset in another form: written to `output`, else returned."""
    if to != "v2":
        raise UsageError(f"a testset can be written as 'v2', not as {to!r}")
    from assay.suites.pipeline.testset.loader import convert_testset

    return convert_testset(path, output)


def analyse_hop(path: Path, target: str = "") -> Report:
    """The report of the result files of a folder, ours or another tool's."""
    from assay.suites.hop.files import analyse

    return analyse(path, target)


def hop_store(path: Path | str, target: str = "") -> BaseDataStore:
    """The results of a folder or a task to ask questions of; fields are counted as their contract says."""
    from assay.suites.hop.files import data_store

    return data_store(path, target)


def providers() -> dict[str, About]:
    """Every provider and what it says about itself."""
    return {name: registry.find("model", name).ABOUT for name in registry.names("model")}
