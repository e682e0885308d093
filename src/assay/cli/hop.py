"""`assay hop`: run a function over the rows of a file, with every profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from assay import api
from assay.cli.hop_report import print_hop_report, report_hop
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.running import run_and_report
from assay.core.errors import UsageError

_OPTIONS = api.options_of("hop")
_EXAMPLES = "\b\nExamples:\n" + "".join(f"  {line}\n" for line in _OPTIONS.examples.splitlines())


class HopCommand(click.Command):
    """Takes several words after `--profiles`, as batchhoptest does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--profiles a b` is `--profiles a,b`."""
        return super().parse_args(ctx, _OPTIONS.translate(args, click.echo))


@click.command("hop", cls=HopCommand, help=_OPTIONS.__doc__, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("target", required=False, metavar="TARGET")
@click.argument("data", required=False, metavar="DATA.jsonl")
@run_options(_OPTIONS)
def command(target: str | None, data: str | None, **flags: Any) -> int:
    """Run the batch, or only count files that exist."""
    if flags["analyse"]:
        print_hop_report(api.analyse_hop(Path(flags["analyse"]), target or ""))
        return 0
    values = file_values(_OPTIONS, flags["config"])
    if not target or not data:
        raise UsageError("name a function and its rows: assay hop FILE.py:function DATA.jsonl")
    if flags["output_dir"] is None and "output_dir" not in values:
        flags["output_dir"] = ""
    spec = spec_from_flags("hop", _OPTIONS, {**flags, "target": target, "data": data}, values)
    return run_and_report(spec, report_hop)


def batchhoptest() -> None:
    """The console script: `batchhoptest TASK DATA [--workers N] [--profiles …]`."""
    from assay.cli.main import main

    sys.argv.insert(1, "hop")
    main()
