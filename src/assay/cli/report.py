"""`assay report`: writes runs as one HTML file, for mail and for the artefacts of CI."""

from __future__ import annotations

import click

from assay.cli.completion import complete_runs
from assay.cli.gate import write_document
from assay.store.render.screen import tell


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_runs)
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="The file to write; - for stdout.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Show at most this many failed rows of each run, and as many cases that changed between runs.",
)
def command(runs: tuple[str, ...], output: str, cases: int) -> int:
    """Write a report of runs as one HTML file: numbers with intervals, slices, failures, curves, failed rows.

    Several runs are compared first. The file has no script and loads nothing, so it can be mailed, kept as an artefact
    of CI, and printed. RUN is a run folder, an output folder with one run, or the beginning of a run's name.

    \b
    Examples:
      assay report results
      assay report results -o report.html --cases 20
      assay report results-before results-now -o comparison.html
    """
    from assay.view.report import report_html  # imported here because completion and --help do not need it

    content = report_html(runs, cases=cases).encode()
    if output == "-":
        click.echo(content, nl=False)
    else:
        write_document(output, content)
        tell(f"wrote {output} ({len(content) / 1000:,.0f} KB)")
    return 0
