"""`assay runs`: lists the runs below a folder."""

from __future__ import annotations

import time
from pathlib import Path

import click

from assay.screen import table, tell
from assay.store.runs import states


@click.command("runs", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="[DIR]"
)
def command(folder: Path) -> int:
    """List the runs below DIR (default: the current folder) with state, progress and score.

    A run with a damaged file is listed too, with the state `damaged`; what is wrong and what to do follows on stderr.
    The exit code stays 0. Of finished runs only run.json, summary.json and the sizes of the other files are read;
    `assay check RUN` verifies every line.

    \b
    Example:
      assay runs results
    """
    rows = []
    for run in states(folder):
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.info.started))
        model = str(run.info.spec.get("model", ""))
        # The name of a suite from a file is its path. Without the folder, it fits into the table.
        suite = run.info.suite.rpartition("/")[2]
        # Many evaluations of one program have the same suite and no model: only their names tell them apart.
        if suite == "evaluate" and run.info.spec:
            suite += f" {run.info.spec['options']['name']}"
        # A run that lost its run.json has no total.
        done = f"{run.done:,}/{run.info.total:,}" if run.info.spec else "–"
        rows.append([run.folder.name, started, suite, model, run.state, done, run.headline])
        if run.problem:
            tell(run.problem)
    if not rows:
        click.echo(f"no runs below {folder}")
        return 0
    table(["run", "started", "suite", "model", "state", "done", "score"], rows)
    return 0
