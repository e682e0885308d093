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

    \b
    Example:
      assay runs results
    """
    rows = []
    for run in states(folder, tell):
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.info.started))
        model = str(run.info.spec.get("model", ""))
        # The name of a suite from a file is its path. Without the folder, it fits into the table.
        suite = run.info.suite.rpartition("/")[2]
        # Many evaluations of one program have the same suite and no model: only their names tell them apart.
        if suite == "evaluate":
            suite += f" {run.info.spec['options']['name']}"
        done = f"{run.done:,}/{run.info.total:,}"
        rows.append([run.folder.name, started, suite, model, run.state, done, run.headline])
    if not rows:
        click.echo(f"no runs below {folder}")
        return 0
    table(["run", "started", "suite", "model", "state", "done", "score"], rows)
    return 0
