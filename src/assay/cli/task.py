"""`assay task`: run model tasks."""

from __future__ import annotations

import json
from typing import Any

import click

from assay import api
from assay.cli.harness import HarnessCommand, accepted, from_config, ignored, seeded
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.report import report
from assay.cli.running import run_and_report
from assay.cli.screen import block, heading, table
from assay.core.errors import UsageError
from assay.core.spec import RunSpec
from assay.core.types import Case

_MOST_NAMES = 60
_OPTIONS = api.options_of("task")
_EXAMPLES = """\b
Examples:
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k,arc --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1 --limit 9
  assay task gsm8k --include-path tasks --model openai/NAME --judge openai/JUDGE --votes 3
  assay task --list --include-path tasks
  assay task --model local-completions --tasks gsm8k --include_path tasks \\
      --model_args model=NAME,base_url=http://127.0.0.1:8000/v1/completions,num_concurrent=64
"""


@click.command("task", cls=HarnessCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("tasks", nargs=-1, metavar="TASK[,TASK...]")
@run_options(_OPTIONS)
@click.option("--tasks", "named", help="The same as the argument, as the harness writes it.")
@click.option("--write-out", is_flag=True, help="Show the first prompt of each task before it is asked.")
@click.option("--list", "listing", is_flag=True, help="List tasks, groups and tags of --include-path.")
@accepted
def command(tasks: tuple[str, ...], named: str | None, write_out: bool, listing: bool, **flags: Any) -> int:
    """Run tasks on a model. TASK is a YAML file, or the name of a task, group or tag.

    Names are looked up below --include-path, then in the task folder of an installed lm_eval package. The
    same command continues a run that was interrupted; a finished run is shown, and nothing is asked.
    """
    ignored(flags)
    told = from_config(file_values(_OPTIONS, flags["config"]))
    if listing:
        return _list(list(flags["include_path"]) or told.get("include_path", []))
    names = [name for given in (*tasks, named or "") for name in given.split(",") if name]
    write_out = told.pop("write_out", False) or write_out
    spec = spec_from_flags("task", _OPTIONS, {**seeded(flags), "tasks": names or None}, told)
    if write_out:
        _show_first(spec)
    return run_and_report(spec, report)


def _list(include: list[str]) -> int:
    if not include:
        raise UsageError("--list needs --include-path DIR: the folder whose tasks are listed")
    rows = [
        [kind, name, _members(where) if kind == "tag" else where]
        for kind, name, where in api.listed_tasks(include)
    ]
    table(["kind", "name", "where"], rows)
    return 0


def _members(names: str) -> str:
    """The tasks of a tag, which may be hundreds."""
    count = names.count(",") + 1
    return (
        names
        if len(names) <= _MOST_NAMES
        else f"{count:,} tasks: {names[:_MOST_NAMES].rpartition(',')[0]}, …"
    )


def _show_first(spec: RunSpec) -> None:
    for case in api.first_cases(spec):
        heading(f"{case.set}: the first prompt")
        _show_case(case)


def _show_case(case: Case) -> None:
    before = None
    for request in case.inputs.requests:
        asked = request.prompt if request.messages is None else json.dumps(request.messages, indent=2)
        if asked is not None and asked != before:
            block(asked)
        before = asked
        if request.continuation is not None:
            block(f"how likely is: {request.continuation!r}")
    block(f"target: {case.gold.target!r}")
