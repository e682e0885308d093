"""`assay task`: run model tasks."""

from __future__ import annotations

from typing import Any

import click

from assay import api
from assay.cli.options import SETTINGS, run_options, spec_from_flags
from assay.cli.progress import observers
from assay.cli.report import report

_OPTIONS = api.options_of("task")
_EXAMPLES = """\b
Examples:
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k,arc --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1 --limit 9
  assay task gsm8k --include-path tasks --model openai-completions/NAME --gen-kwargs temperature=0.7
"""


@click.command("task", epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("tasks", required=False, metavar="TASK[,TASK...]")
@run_options(_OPTIONS)
@click.option("--tasks", "named", help="The same as the argument, as the harness writes it.")
def command(tasks: str | None, named: str | None, **flags: Any) -> int:
    """Run tasks on a model. TASK is a YAML file, or a task's name with --include-path.

    The same command continues a run that was interrupted; a finished run is shown, and nothing is asked.
    """
    listed = [name for name in f"{tasks or ''},{named or ''}".split(",") if name]
    spec = spec_from_flags("task", _OPTIONS, {**flags, "tasks": listed or None})
    run = api.run(spec, observers(quiet=spec.quiet))
    if not spec.quiet:
        report(run)
    elif run.reason:
        click.echo(run.reason, err=True)
    return run.exit_code
