"""`assay convert`: converts a testset to the newest version of its format."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("testset", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(["v2"]), default="v2", show_default=True, help="Format to write.")
@click.option("--output", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
def command(testset: Path, to: str, output: Path | None) -> int:
    """Convert a pipeline testset from Prompt Lab's format v1 to v2. A v2 testset is reformatted.

    The new file has one record per line and contains the same tests. Comments are lost. Keys that the format does
    not define are kept. In a v1 record such keys are inputs, so they are written to `inputs`.

    \b
    Example:
      assay convert reviews.jsonl --to v2 --output testsets/reviews_basic_v2.jsonl
    """
    from assay.runner import api

    lines = api.convert(testset, to, output)
    if output is None:
        sys.stdout.buffer.write(lines)
    else:
        click.echo(f"wrote {output}")
    return 0
