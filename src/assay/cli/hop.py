"""`assay hop`: run a function over the rows of a file, with every profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from assay import api
from assay.cli.hop_report import report_files, report_hop
from assay.cli.options import SETTINGS, file_values, run_options, spec_from_flags
from assay.cli.running import run_and_report
from assay.core.errors import UsageError

_OPTIONS = api.options_of("hop")
_EXAMPLES = """\b
Examples:
  assay hop my_functions.py:check TestCases/verify.jsonl --model local/smollm2
  assay hop Tasks/Verify verify.jsonl --profiles fast careful --workers 10
  assay hop --analyse Tasks/Verify/TestCases
"""


class HopCommand(click.Command):
    """Takes several words after `--profiles`, as batchhoptest does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--profiles a b` is `--profiles a,b`."""
        return super().parse_args(ctx, joined(args))


def joined(words: list[str]) -> list[str]:
    """Words after `--profiles` put together, up to the next flag."""
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, _, first = word.partition("=")
        if flag != "--profiles":
            found.append(word)
            continue
        names = [first] if first else []
        while rest and not rest[0].startswith("-"):
            names.append(rest.pop(0))
        found += [flag, ",".join(names)] if names else [flag]
    return found


@click.command("hop", cls=HopCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("target", required=False, metavar="TARGET")
@click.argument("data", required=False, metavar="DATA.jsonl")
@run_options(_OPTIONS)
@click.option(
    "--analyse",
    type=click.Path(exists=True, path_type=Path),
    help="Only count and compare the result files of a folder, ours or not.",
)
def command(target: str | None, data: str | None, analyse: Path | None, **flags: Any) -> int:
    """Run TARGET over the rows of DATA.jsonl, once for each profile of the settings.

    TARGET is FILE.py:function, package.module:function, or a task folder with Hoplet/Hop.py. Results stand in
    the task's TestCases/, or beside the data. The same command continues a batch that was interrupted.
    """
    if analyse is not None:
        report_files(api.analyse_hop(analyse, target))
        return 0
    told = file_values(_OPTIONS, flags["config"])
    if not target or not data:
        raise UsageError("name a function and its rows: assay hop FILE.py:function DATA.jsonl")
    data = api.hop_data(target, data)
    if flags["output_dir"] is None and "output_dir" not in told:
        flags["output_dir"] = str(api.hop_folder(target, data))
    spec = spec_from_flags("hop", _OPTIONS, {**flags, "target": target, "data": data}, told)
    return run_and_report(spec, report_hop)


def batchhoptest() -> None:
    """The console script: `batchhoptest TASK DATA [--workers N] [--profiles …]`."""
    from assay.cli.main import main

    sys.argv.insert(1, "hop")
    main()
