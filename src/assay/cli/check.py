"""`assay check`: what is wrong in a file."""

from __future__ import annotations

from pathlib import Path

import click

from assay import api


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(files: tuple[Path, ...]) -> int:
    """Say of task YAML files and data files what is wrong, every problem with its line.

    Equal documents are named too, as warnings. Exit code 1 if there is an error.

    \b
    Example:
      assay check examples/task/quickstart.yaml data.jsonl
    """
    failed = False
    for path in files:
        problems = api.check(path)
        errors = [problem for problem in problems if problem.level == "error"]
        failed = failed or bool(errors)
        for problem in problems:
            click.echo(
                f"{problem.where}: {'warning: ' if problem.level == 'warning' else ''}{problem.message}"
            )
        warnings = sum(problem.level == "warning" for problem in problems)
        click.echo(f"{path}: " + (_counted(len(errors), warnings) if errors or warnings else "fine"))
    return 1 if failed else 0


def _counted(errors: int, warnings: int) -> str:
    parts = [
        f"{count} {word}{'s' if count != 1 else ''}"
        for count, word in ((errors, "error"), (warnings, "warning"))
    ]
    return ", ".join(parts)
