"""One run, as every run command does it: progress while it goes on, the report when it ends."""

from __future__ import annotations

from collections.abc import Callable

import click

from assay import api
from assay.cli.progress import observers
from assay.core.spec import RunSpec


def run_and_report(spec: RunSpec, report: Callable[[api.Run], None]) -> int:
    """The exit code. A quiet run says only what stopped it."""
    run = api.run(spec, observers(quiet=spec.quiet))
    if not spec.quiet:
        report(run)
    elif run.reason:
        click.echo(run.reason, err=True)
    return run.exit_code
