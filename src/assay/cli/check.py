"""`assay check`: lists the problems of data and configuration files, without a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from assay.cli.completion import complete_suites
from assay.core.errors import Problem
from assay.screen import block, counted
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
def command(files: tuple[Path, ...], pipeline: Path | None, suite: str | None) -> int:
    """List every problem in files and folders, with its line. Exit code 1 if a problem is an error.

    FILES can be task YAML files, folders of them, and their data; pipelines and testsets; HOP task folders,
    settings, contracts and rows; conversations with questions; samples of memory evaluations; and files of
    installed suites or of a suite passed with --as FILE.py:NAME.

    Warnings, such as duplicate documents, and advice on testsets do not change the exit code.

    \b
    Examples:
      assay check examples/task/quickstart.yaml data.jsonl
      assay check testsets/sentiment_basic.jsonl --pipeline pipeline.yaml
      assay check Tasks/Verify
      assay check examples/memory/talks.json examples/memory-eval
      assay check rows.jsonl --as hop
    """
    from assay import api  # imported here because completion and --help do not need it

    failed = False
    for path in files:
        name = absolute(suite) if suite else api.recognise(path, pipeline)
        problems = api.check(path, pipeline, name)
        failed = failed or any(problem.level == "error" for problem in problems)
        if name == "pipeline" and path.suffix == ".jsonl":
            _print_by_level(problems)
        else:
            for problem in problems:
                word = "warning: " if problem.level == "warning" else ""
                block(f"{problem.where}: {word}{problem.message}", indent="")
        click.echo(f"{path}: {_counts(problems) or 'fine'}")
    return 1 if failed else 0


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
