"""`assay task`: run model tasks."""

from __future__ import annotations

import json
from typing import Any

import click

from assay import api
from assay.cli.options import SETTINGS, run_options, spec_from_flags
from assay.cli.progress import observers
from assay.cli.report import report
from assay.cli.screen import block, heading, table
from assay.core.errors import UsageError
from assay.core.spec import RunSpec
from assay.core.types import Case

_OPTIONS = api.options_of("task")
_EXAMPLES = """\b
Examples:
  assay task examples/task/quickstart.yaml --model local/smollm2
  assay task gsm8k,arc --include-path tasks --model openai/NAME --base-url http://127.0.0.1:8000/v1 --limit 9
  assay task --list --include-path tasks
  assay task --model local-completions --tasks gsm8k --include_path tasks \\
      --model_args model=NAME,base_url=http://127.0.0.1:8000/v1/completions,num_concurrent=64
"""
_SHORT = {
    "-t": "--tasks",
    "-M": "--model",
    "-a": "--model-args",
    "-L": "--limit",
    "-f": "--num-fewshot",
    "-b": "--batch-size",
    "-c": "--use-cache",
    "-o": "--output-path",
    "-s": "--log-samples",
    "-E": "--samples",
    "-C": "--config",
    "-v": "--verbosity",
    "-w": "--write-out",
    "-x": "--predict-only",
}
"""The harness's short flags."""
_LISTS = ("--model-args", "--model_args", "--gen-kwargs", "--gen_kwargs")
_IGNORED = {
    "batch_size": "requests are never batched; --concurrency says how many run at once",
    "max_batch_size": "requests are never batched",
    "device": "models run behind their endpoints, or on the CPU",
    "use_cache": "every run keeps its replies; the same command continues it",
    "cache_requests": "prompts are built as they are asked",
    "verbosity": "--quiet prints nothing but errors",
    "wandb_args": "nothing is sent to anyone",
    "wandb_config_args": "nothing is sent to anyone",
    "trackio_args": "nothing is sent to anyone",
    "hf_hub_log_args": "nothing is sent to anyone",
}
_IGNORED_SWITCHES = {
    "check_integrity": "`assay check` looks at task files",
    "show_config": "results_*.json has the configuration",
    "trust_remote_code": "data sets that run code are not loaded, unless the task's own file says so",
}


class HarnessCommand(click.Command):
    """Takes the harness's ways: short flags, and `--model_args a=1 b=2` with spaces."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Every token as click knows it."""
        return super().parse_args(ctx, _joined([_SHORT.get(token, token) for token in args]))


def _joined(tokens: list[str]) -> list[str]:
    """`a=1 b=2` after a flag that takes pairs as one value, `a=1,b=2`."""
    found: list[str] = []
    pairs = 0
    for token in tokens:
        if pairs > 1 and "=" in token and not token.startswith("-"):
            found[-1] += f",{token}"
        else:
            pairs = 1 if token in _LISTS else pairs + 1 if pairs == 1 else 0
            found.append(token)
    return found


def _accepted(function: Any) -> Any:
    """Flags of the harness that have nothing to do here: accepted, and named."""
    for name in _IGNORED:
        function = click.option(f"--{name.replace('_', '-')}", name, hidden=True)(function)
    for name in _IGNORED_SWITCHES:
        function = click.option(f"--{name.replace('_', '-')}", name, is_flag=True, hidden=True)(function)
    return function


@click.command("task", cls=HarnessCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("tasks", nargs=-1, metavar="TASK[,TASK...]")
@run_options(_OPTIONS)
@click.option("--tasks", "named", help="The same as the argument, as the harness writes it.")
@click.option("--write-out", is_flag=True, help="Show the first prompt of each task before it is asked.")
@click.option("--list", "listing", is_flag=True, help="List tasks, groups and tags of --include-path.")
@_accepted
def command(tasks: tuple[str, ...], named: str | None, write_out: bool, listing: bool, **flags: Any) -> int:
    """Run tasks on a model. TASK is a YAML file, or the name of a task, group or tag.

    Names are looked up below --include-path, then in the task folder of an installed lm_eval package. The
    same command continues a run that was interrupted; a finished run is shown, and nothing is asked.
    """
    for name, why in (_IGNORED | _IGNORED_SWITCHES).items():
        if flags.pop(name):
            click.echo(f"--{name.replace('_', '-')} is ignored: {why}", err=True)
    if listing:
        return _list(list(flags["include_path"]))
    names = [name for given in (*tasks, named or "") for name in given.split(",") if name]
    spec = spec_from_flags("task", _OPTIONS, {**_seeded(flags), "tasks": names or None})
    if write_out:
        _show_first(spec)
    run = api.run(spec, observers(quiet=spec.quiet))
    if not spec.quiet:
        report(run)
    elif run.reason:
        click.echo(run.reason, err=True)
    return run.exit_code


def _seeded(flags: dict[str, Any]) -> dict[str, Any]:
    """`--seed a,b,c,d`, the harness's four seeds: the last is for few-shot examples, and the run's own."""
    given = flags.get("seed")
    if not given or "," not in given:
        return flags
    try:
        seeds = [None if text.strip().lower() == "none" else int(text) for text in given.split(",")]
    except ValueError:
        raise UsageError(f"--seed takes one number or four, found {given!r}") from None
    return {**flags, "seeds": seeds, "seed": seeds[-1]}


def _list(include: list[str]) -> int:
    if not include:
        raise UsageError("--list needs --include-path DIR: the folder whose tasks are listed")
    table(["kind", "name", "where"], [list(row) for row in api.listed_tasks(include)])
    return 0


def _show_first(spec: RunSpec) -> None:
    for case in api.first_cases(spec):
        heading(f"{case.set}: the first prompt")
        _show_case(case)


def _show_case(case: Case) -> None:
    for request in case.inputs.requests:
        asked = request.prompt if request.messages is None else json.dumps(request.messages, indent=2)
        block(asked or "")
        if request.continuation is not None:
            block(f"how likely is: {request.continuation!r}")
    block(f"target: {case.gold.target!r}")
