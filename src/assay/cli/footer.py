"""The last lines of a run on the screen: what it cost, what failed, where its files are, how to continue."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.screen import counted, duration, tell

if TYPE_CHECKING:
    from assay.api import Run

# More files than this are shown as folders with their counts.
MOST_FILES = 8


def print_footer(run: Run) -> None:
    """What the run cost, what failed, where the files are, and how to continue if something is left."""
    click.echo(_cost(run))
    for kind, count in run.summary.failures.items():
        click.echo(f"  {count:,} × {kind}")
    files = run.files
    if run.summary.newest:
        # People look for the newest run's files there; the run folder has the same ones.
        files = [Path(run.summary.newest) / file.name for file in (*files, Path("summary.json"))]
    lines = [str(file) for file in files]
    if len(files) > MOST_FILES:
        folders = Counter(file.parent for file in files)
        lines = [f"{folder}/ ({counted(count, 'file')})" for folder, count in folders.items()]
    for line in lines:
        click.echo(f"wrote {line}" if run.asked else f"found {line}")
    click.echo(f"run   {run.folder}")
    if run.exit_code in (3, 130):
        _print_how_to_continue(run)


def _cost(run: Run) -> str:
    """What the run cost over all its starts, and what this start asked."""
    summary, spent, now = run.summary, run.summary.spent, run.summary.this_start
    ended = summary.ok + summary.subject_error + summary.infra_error
    parts = [f"{ended:,} of {counted(summary.total, 'case')}", counted(spent.get("calls", 0), "call")]
    if spent.get("retries"):
        parts.append(counted(spent["retries"], "retry", "retries"))
    if spent.get("input_tokens") or spent.get("output_tokens"):
        parts.append(f"{spent['input_tokens']:,} tokens in, {spent['output_tokens']:,} out")
    if not run.asked:
        state = "finished before" if summary.state == "finished" else summary.state
        return " · ".join([*parts, f"{state}, nothing asked"])
    if now.get("paid", 0) != spent.get("calls"):
        parts.append(f"{now.get('paid', 0):,} of them now")
    if now.get("replayed"):
        parts.append(f"{now['replayed']:,} replayed")
    return " · ".join([*parts, duration(summary.seconds)])


def _print_how_to_continue(run: Run) -> None:
    if run.reason:
        tell(run.reason)
    unfit = run.summary.failures.get("bad_case", 0)
    if unfit:
        click.echo(f"{counted(unfit, 'document')} cannot be asked; `assay check` says why.", err=True)
    if (unasked := run.summary.infra_error - unfit) > 0:
        click.echo(f"{_again(unasked, 'got no answer')} be asked again.", err=True)
    if unscored := run.summary.unscored:
        click.echo(f"{_again(unscored, 'could not be judged')} be judged again.", err=True)
    # `assay rescore` would stop at the same place again: the run's own command asks for what is missing.
    asks = run.asked and sys.argv[1:2] != ["rescore"]
    words = (sys.argv if asks else run.info.command)[1:]
    command = shlex.join(["assay", *[word for word in words if word != "--fresh"]])
    click.echo(f"Nothing is lost. To continue: {command}", err=True)


def _again(count: int, what: str) -> str:
    return f"{counted(count, 'case')} {what}; {'it' if count == 1 else 'they'} will"
