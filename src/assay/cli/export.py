"""`assay export`: writes a run in the file format of another program."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.render.screen import tell


@click.command("export", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--to",
    "format_name",
    required=True,
    metavar="FORMAT",
    help="lm-eval, pipeline, hop, memory-test, memory-eval, inspect; or a plain table: csv, json "
    "(a line for each row) or parquet.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File to write, or folder for formats of several files. It must not exist.  [default: the name of the run]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the files, and what is lost, as JSON.")
def command(run: str, format_name: str, output: Path | None, as_json: bool) -> int:
    """Write a finished run in the FORMAT of another program, and say what that format cannot hold.

    RUN is a run folder, an output folder with one run, or the beginning of a run's name. The run itself stays as it is.
    `assay import` reads the result again.

    \b
    Examples:
      assay export results --to lm-eval --output for-the-harness
      assay export results --to csv --output answers.csv
      assay export 2026-11-15T18-25-44 --to parquet
    """
    import msgspec

    from assay.runner.exports import export

    if output == Path("-"):
        raise UsageError("--output -: an export is written to files; name a file or a folder")
    written = export(run, format_name, output)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(written), indent=2))
        return 0
    for file in written.files:
        click.echo(file)
    if written.lost:
        tell(f"not in this format: {', '.join(written.lost)}")
    return 0
