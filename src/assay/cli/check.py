"""`assay check`: what is wrong in a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from assay import api
from assay.cli.screen import block, counted
from assay.core.errors import Problem
from assay.suites import absolute


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--pipeline", type=click.Path(path_type=Path), help="Pipeline file that the testsets are for.")
@click.option("--as", "suite", metavar="SUITE", help="The suite that reads the files, where several could.")
def command(files: tuple[Path, ...], pipeline: Path | None, suite: str | None) -> int:
    """Say what is wrong in files and folders of any suite, every problem with its line.

    These are task YAML files, folders of them, and their data; pipelines and testsets; task folders of HOP,
    their settings, contracts and rows; conversations with their questions; samples of memory evaluations.

    Equal documents are named too, as warnings; testsets also get advice. Exit code 1 if there is an error.

    \b
    Examples:
      assay check examples/task/quickstart.yaml data.jsonl
      assay check testsets/sentiment_basic.jsonl --pipeline pipeline.yaml
      assay check Tasks/Verify
      assay check examples/memory/talks.json examples/memory-eval
      assay check rows.jsonl --as hop
    """
    failed = False
    for path in files:
        name = absolute(suite) if suite else api.recognise(path, pipeline)
        problems = api.check(path, pipeline, name)
        failed = failed or any(problem.level == "error" for problem in problems)
        if name == "pipeline" and path.suffix == ".jsonl":
            _apart(problems)
        else:
            _in_order(problems)
        click.echo(f"{path}: {_counted(problems) or 'fine'}")
    return 1 if failed else 0


_WORDS = {"error": "errors", "warning": "warnings", "advice": "advice"}


def _in_order(problems: list[Problem]) -> None:
    for problem in problems:
        word = "warning: " if problem.level == "warning" else ""
        block(f"{problem.where}: {word}{problem.message}", indent="")


def _apart(problems: list[Problem]) -> None:
    """What must be mended first, then what should be, then what could be."""
    for level, word in _WORDS.items():
        if found := [problem for problem in problems if problem.level == level]:
            click.echo(f"{word} ({len(found)})")
            for problem in found:
                block(str(problem))


def _counted(problems: list[Problem]) -> str:
    """`1 error, 0 warnings`, with advice where there is some; empty if there is nothing to count."""
    counts = Counter(problem.level for problem in problems if problem.level in _WORDS)
    if not counts:
        return ""
    parts = [counted(counts[level], level) for level in ("error", "warning")]
    return ", ".join(parts + ([f"{counts['advice']} advice"] if counts["advice"] else []))
