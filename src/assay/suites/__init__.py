"""The table of suites. A suite is built in, comes from an installed package, or is a class in a file.

A package adds a suite with an entry point of the group `assay.suites`:

    [project.entry-points."assay.suites"]
    quiz = "my_package.quiz:Quiz"

`path/to/file.py:Name` is a suite that is not installed. All suites have the same commands and the same API.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from assay.core.errors import AssayError, UsageError, unknown
from assay.core.registry import entry_points_of
from assay.usercode.plugins import load_from_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from assay.core.spec import SuiteOptions
    from assay.core.suite import Suite

ENTRY_POINTS = "assay.suites"


class BuiltIn(Struct, frozen=True):
    """A built-in suite. Nothing of it is imported until it is used, so that commands start fast.

    An empty `command` means that only Python runs the suite.
    `options` and `suite` are `module:Class`. They are separate so that `--help` imports the options only.
    """

    command: str
    summary: str
    options: str
    suite: str


BUILT_IN: dict[str, BuiltIn] = {
    "task": BuiltIn(
        command="task",
        summary="Run model tasks in the format of lm-evaluation-harness.",
        options="assay.suites.task.options:TaskOptions",
        suite="assay.suites.task.suite:TaskSuite",
    ),
    "pipeline": BuiltIn(
        command="pipeline",
        summary="Run multi-step pipelines over testsets, with expectations for every step.",
        options="assay.suites.pipeline.options:PipelineOptions",
        suite="assay.suites.pipeline.suite:PipelineSuite",
    ),
    "hop": BuiltIn(
        command="hop",
        summary="Run an LLM function over the rows of a file, once per profile.",
        options="assay.suites.hop.options:HopOptions",
        suite="assay.suites.hop.suite:HopSuite",
    ),
    "memory-test": BuiltIn(
        command="memory test",
        summary="Insert conversations into memories and test which questions can be answered from them.",
        options="assay.suites.memory.test.options:MemoryTestOptions",
        suite="assay.suites.memory.test.suite:MemoryTestSuite",
    ),
    "calibration": BuiltIn(
        command="judge calibrate",
        summary="Measure how well a judge agrees with labels.",
        options="assay.suites.calibration.options:CalibrationOptions",
        suite="assay.suites.calibration.suite:CalibrationSuite",
    ),
    "memory-eval": BuiltIn(
        command="memory eval",
        summary="Insert samples into memories session by session and score six dimensions with a judge.",
        options="assay.suites.memory.eval.options:MemoryEvalOptions",
        suite="assay.suites.memory.eval.suite:MemoryEvalSuite",
    ),
    "evaluate": BuiltIn(
        command="",
        summary="Evaluate functions, prompts and models from Python.",
        options="assay.suites.evaluate.options:EvaluateOptions",
        suite="assay.suites.evaluate.suite:EvaluateSuite",
    ),
}
"""The built-in suites, by name."""

COMMAND_GROUPS: Mapping[str, str] = {
    "memory": "Test memories of conversations: retrieval, and answers from the retrieved items.",
    "judge": "Measure how well a judge agrees with labels.",
}
"""First words of two-word commands, such as `memory test` and `memory eval`, with their help text."""


class SuiteCommand(NamedTuple):
    """The suite behind a command, and its line in the list of commands."""

    name: str
    summary: str


def suite_names() -> list[str]:
    """Return the names of all suites, built-in suites first."""
    return [*BUILT_IN, *(name for name in installed_suites() if name not in BUILT_IN)]


def find_suite(name: str) -> type[Suite[Any, Any]]:
    """Return the suite with this name, or the class at `path/to/file.py:Name`. Raises UsageError if there is none."""
    from assay.core.suite import Suite

    if is_path(name):
        suite = load_from_file(name)
    elif name in BUILT_IN:
        suite = _load(BUILT_IN[name].suite)
    elif point := installed_suites().get(name):
        suite = _load_installed(point)
    else:
        raise UsageError(unknown("suite", name, suite_names()))
    if not (isinstance(suite, type) and issubclass(suite, Suite)):
        raise UsageError(f"{name} is not a suite: it must be a subclass of assay.core.suite.Suite")
    if missing := sorted(suite.__abstractmethods__):
        raise UsageError(f"{name} is not a complete suite: it lacks {', '.join(missing)}; see docs/extending.md")
    return suite


def find_options(name: str) -> type[SuiteOptions]:
    """Return the options class of a suite. A built-in suite itself is not imported."""
    if name in BUILT_IN:
        options: type[SuiteOptions] = _load(BUILT_IN[name].options)
        return options
    return find_suite(name).Options


def command_table() -> dict[str, SuiteCommand]:
    """Return all suites by the words of their commands, built-in suites first. Imports the installed suites.

    The summary of a suite that cannot be imported is the error message. The other commands still work.
    """
    commands = {about.command: SuiteCommand(name, about.summary) for name, about in BUILT_IN.items() if about.command}
    for name in installed_suites():
        try:
            options = find_options(name)
        except AssayError as error:
            commands.setdefault(name, SuiteCommand(name, str(error)))
            continue
        summary = (options.__doc__ or "").strip().partition("\n")[0]
        commands.setdefault(options.command or name, SuiteCommand(name, summary))
    return commands


def is_path(name: str) -> bool:
    """Return True if a suite is given as `path/to/file.py:Name`."""
    return ".py:" in name


def absolute(name: str) -> str:
    """Return `path/to/file.py:Name` with an absolute path, and any other name unchanged.

    A run stores this name, so that `assay show` finds the suite from any folder.
    """
    if not is_path(name):
        return name
    path, _, attribute = name.rpartition(":")
    return f"{Path(path).absolute()}:{attribute}"


def installed_suites() -> dict[str, EntryPoint]:
    """Return the entry points of suites, by name."""
    return {point.name: point for point in entry_points_of(ENTRY_POINTS)}


def _load_installed(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist else point.value
        raise UsageError(
            f"the suite {point.name!r} of {package} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _load(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
