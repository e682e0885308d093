"""`assay check`: lists the problems of data and configuration files, and verifies run folders."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from assay.cli.completion import complete_suites
from assay.core.errors import Problem
from assay.screen import block, counted
from assay.store.check import RunCheck, check_run, find_run_folders
from assay.suites import absolute

# Levels of problems and their plurals, most urgent first.
LEVELS = {"error": "errors", "warning": "warnings", "advice": "advice"}


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--pipeline", type=click.Path(path_type=Path), help="Pipeline file that the testsets are for.")
@click.option(
    "--as",
    "suite",
    metavar="SUITE",
    shell_complete=complete_suites,
    help="Suite whose rules apply to the files. Default: recognised from their content.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def command(files: tuple[Path, ...], pipeline: Path | None, suite: str | None, as_json: bool) -> int:
    """List every problem in files and folders, with its line. Exit code 1 if a problem is an error.

    FILES can be task YAML files, folders of them, and their data; pipelines and testsets; HOP task folders,
    settings, contracts and rows; conversations with questions; samples of memory evaluations; price tables; and files
    of installed suites or of a suite passed with --as FILE.py:NAME.

    A run folder, all runs below a folder, or a run by the beginning of its name, is verified as a whole: every line
    of its journal, run.json, summary.json, and the result files. Damage is named with file, line and byte.

    Warnings, such as duplicate documents, and advice on testsets do not change the exit code.

    \b
    Examples:
      assay check examples/task/quickstart.yaml data.jsonl
      assay check testsets/sentiment_basic.jsonl --pipeline pipeline.yaml
      assay check Tasks/Verify
      assay check examples/memory/talks.json examples/memory-eval
      assay check rows.jsonl --as hop
      assay check results
    """
    checks = [check for path in files for check in _check(path, pipeline, suite)]
    if as_json:
        click.echo(msgspec.json.encode([_as_json(check) for check in checks]).decode())
    else:
        for check in checks:
            _print(check)
    return 1 if any(problem.level == "error" for check in checks for problem in check.problems) else 0


class Checked(NamedTuple):
    """The problems of a file, or of a run folder with what was verified in it."""

    path: Path
    suite: str
    problems: list[Problem]
    run: RunCheck | None = None


def _check(path: Path, pipeline: Path | None, suite: str | None) -> list[Checked]:
    from assay import api  # imported here because completion and --help do not need it

    checks = []
    for run in find_run_folders(path) if not suite and not pipeline else ():
        check = check_run(run)
        checks.append(Checked(run, "", check.problems, check))
    if checks:
        return checks
    name = api.recognise(path, pipeline) if not suite else suite if suite == api.PRICES else absolute(suite)
    return [Checked(path, name, api.check(path, pipeline, name))]


def _as_json(check: Checked) -> dict[str, object]:
    problems = [problem._asdict() for problem in check.problems]
    if check.run is None:
        return {"path": str(check.path), "suite": check.suite, "problems": problems}
    document: dict[str, object] = msgspec.to_builtins(check.run)
    return document | {"path": str(check.path), "damaged": check.run.damaged, "problems": problems}


def _print(check: Checked) -> None:
    if check.suite == "pipeline" and check.path.suffix == ".jsonl":
        _print_by_level(check.problems)
    else:
        for problem in check.problems:
            word = "warning: " if problem.level == "warning" else ""
            block(f"{problem.where}: {word}{problem.message}", indent="")
    counts = _counts(check.problems)
    if check.run is None:
        click.echo(f"{check.path}: {counts or 'fine'}")
        return
    run = check.run
    verified = (
        f"{counted(run.lines, 'line')} of the journal intact, {counted(run.cases, 'case')} ended, "
        f"{counted(run.result_files, 'result file')} as written"
    )
    click.echo(f"{check.path}: {f'damaged, {counts}' if run.damaged else 'fine'}: {verified}")
    if run.advice:
        command = f"\n  {shlex.join(run.command)}" if run.command else ""
        block(run.advice + command, indent="")


def _print_by_level(problems: list[Problem]) -> None:
    """Print errors first. A testset has so much advice that they would be hard to find."""
    for level, word in LEVELS.items():
        own = [problem for problem in problems if problem.level == level]
        if own:
            click.echo(f"{word} ({len(own)})")
            for problem in own:
                block(str(problem))


def _counts(problems: list[Problem]) -> str:
    """Return `1 error, 0 warnings`, with advice if there is some. Empty if there are no problems."""
    counts = Counter(problem.level for problem in problems if problem.level in LEVELS)
    if not counts:
        return ""
    parts = [counted(counts[level], level) for level in ("error", "warning")]
    if counts["advice"]:
        parts.append(f"{counts['advice']} advice")
    return ", ".join(parts)
