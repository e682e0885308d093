"""`assay check`: says what data and configuration files are, lists their problems, and verifies run folders."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from assay.cli.completion import complete_suites
from assay.core.errors import Problem
from assay.core.file_check import FOLDER, PRICES, REPLIES, RESULTS, CheckOptions
from assay.store.check import RunCheck, check_run, find_run_folders
from assay.store.render.screen import block, counted
from assay.suites import absolute

if TYPE_CHECKING:
    from assay.runner.check import CheckedFile

# Levels of problems and their plurals, most urgent first.
LEVELS = {"error": "errors", "warning": "warnings", "advice": "advice"}
_WITHOUT_SUITE = (PRICES, REPLIES, RESULTS)


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--pipeline", type=click.Path(path_type=Path), help="Pipeline file that the testsets are for.")
@click.option(
    "--as",
    "suite",
    metavar="FORMAT",
    shell_complete=complete_suites,
    help="Suite whose rules apply to the files, or prices, replies or results. Default: recognised from their content.",
)
@click.option(
    "--run-code",
    is_flag=True,
    help="Also run the Python of the files, such as !function, and load data sets of the Hub. Default: neither.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def command(files: tuple[Path, ...], pipeline: Path | None, suite: str | None, run_code: bool, as_json: bool) -> int:
    """Say what files are, and list every problem with its line. Exit code 1 if a problem is an error.

    FILES can be task YAML files and their data; pipelines, testsets, and agents of Prompt Lab; HOP task folders,
    settings, contracts, rows, results and logs; conversations with questions; samples of memory evaluations; labels;
    price tables; recorded replies; results that `assay import` reads; and files of installed suites or of a suite
    passed with --as FILE.py:NAME. A folder is checked file by file. A file in no such format is an error.

    No code of the files is run, unless --run-code is passed.

    A run folder, all runs below a folder, or a run by the beginning of its name, is verified as a whole: every line
    of its journal, run.json, summary.json, and the result files. Damage is named with file, line and byte.

    Warnings, such as duplicate documents, and advice on testsets do not change the exit code.

    \b
    Examples:
      assay check examples/task/quickstart.yaml data.jsonl
      assay check testsets/sentiment_basic.jsonl --pipeline pipeline.yaml
      assay check Tasks/Verify
      assay check examples
      assay check rows.jsonl --as hop
      assay check results
    """
    from assay.runner.check import check_path, is_output

    options = CheckOptions(beside=pipeline, run_code=run_code)
    documents: list[dict[str, object]] = []
    problems: list[Problem] = []
    for path in files:
        runs = find_run_folders(path) if not suite and not pipeline else []
        for run in runs:
            check = check_run(run)
            problems += check.problems
            documents.append(_run_as_json(run, check))
            if not as_json:
                _print_run(run, check)
        # A folder of runs, or a run by its name. A project has files beside its runs.
        if runs and (not path.is_dir() or is_output(path)):
            continue
        name = "" if not suite else suite if suite in _WITHOUT_SUITE else absolute(suite)
        for each in check_path(path, options, name):
            problems += each.check.problems
            documents.append(_as_json(each))
            if not as_json:
                _print(each)
    if as_json:
        click.echo(msgspec.json.encode(documents).decode())
    return 1 if any(problem.level == "error" for problem in problems) else 0


def _as_json(each: CheckedFile) -> dict[str, object]:
    check = each.check
    return {
        "path": str(each.path),
        "suite": each.suite,
        "kind": check.kind,
        "contents": check.contents,
        "problems": [problem._asdict() for problem in check.problems],
        "notes": check.notes,
    }


def _run_as_json(run: Path, check: RunCheck) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(check)
    problems = [problem._asdict() for problem in check.problems]
    return document | {"path": str(run), "kind": "run", "damaged": check.damaged, "problems": problems}


def _print(each: CheckedFile) -> None:
    check = each.check
    if each.suite == "pipeline" and each.path.suffix == ".jsonl":
        _print_by_level(check.problems)
    else:
        _print_problems(check.problems)
    # The line of a folder has the counts of its files as its contents.
    verdict = _counts(check.problems) or ("" if check.kind == FOLDER else "fine")
    parts = [str(each.path), check.kind, check.contents, verdict]
    click.echo(": ".join(part for part in parts if part))
    for note in check.notes:
        block(note)


def _print_run(folder: Path, run: RunCheck) -> None:
    _print_problems(run.problems)
    verified = (
        f"{counted(run.lines, 'line')} of the journal intact, {counted(run.cases, 'case')} ended, "
        f"{counted(run.result_files, 'result file')} as written"
    )
    state = f"damaged, {_counts(run.problems)}" if run.damaged else "fine"
    click.echo(f"{folder}: {state}: {verified}")
    if run.advice:
        command = f"\n  {shlex.join(run.command)}" if run.command else ""
        block(run.advice + command, indent="")


def _print_problems(problems: list[Problem]) -> None:
    for problem in problems:
        word = "warning: " if problem.level == "warning" else ""
        block(f"{problem.where}: {word}{problem.message}", indent="")


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
