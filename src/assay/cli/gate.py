"""`assay gate`: decides whether a run meets its requirements, for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.render.screen import block, counted, heading, table, tell
from assay.store.render.tables import gate_table, judge_lines

if TYPE_CHECKING:
    from assay.store.gate import GateResult

# The first three words of a document are within so many bytes.
_START_BYTES = 200


@click.command("gate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--require",
    multiple=True,
    metavar="'METRIC >= NUMBER'",
    help="A requirement, with >=, >, <= or <. METRIC is the name in the report, also as METRIC,FILTER, SET METRIC or "
    "METRIC@SUBJECT. Can be repeated.",
)
@click.option(
    "--against",
    metavar="BASE",
    shell_complete=complete_runs,
    help="A run to compare with. Needs --max-drop.",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    help="With --against: the largest drop that is allowed, such as 0.02.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="With --against: the metric to compare, as `assay compare` names it. Can be repeated.  [default: the first "
    "metric of the report]",
)
@click.option("--point", is_flag=True, help="Decide by the values alone, without their intervals.")
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Decide although some cases have no answer. Without it, an incomplete run is inconclusive.",
)
@click.option(
    "--min-kappa",
    type=click.FloatRange(-1, 1),
    help="Exit with 2 if a requirement depends on a judge that has a lower kappa in its calibration, or no "
    "calibration.",
)
@click.option("--junit", metavar="FILE", help="Write JUnit XML, one test case for each requirement.")
@click.option(
    "--markdown",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Print a summary in Markdown in place of the table; with FILE, write it there beside the table.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the decisions as JSON.")
def command(  # noqa: PLR0913 - one parameter for each option
    run: str,
    require: tuple[str, ...],
    against: str | None,
    max_drop: float | None,
    metrics: tuple[str, ...],
    point: bool,
    allow_missing: bool,
    min_kappa: float | None,
    junit: str | None,
    markdown: str | None,
    as_json: bool,
) -> int:
    """Decide whether a run meets its requirements: exit code 0 pass, 1 fail, 4 inconclusive.

    A requirement passes if the whole 95% interval of its metric meets it, and fails if no value of the interval does.
    Otherwise it is inconclusive. With --against, the interval is that of the difference to BASE on the cases that both
    runs have. RUN and BASE are a run folder, an output folder with one run, or the beginning of a run's name, each
    also with @SUBJECT.

    \b
    Examples:
      assay gate results --require "exact_match >= 0.8"
      assay gate results --require "gsm8k exact_match,strict >= 0.6" --require "wer <= 0.1"
      assay gate results --against results-main --max-drop 0.02
      assay gate results --require "pass_rate >= 0.9" --markdown
      assay gate results --require "pass_rate >= 0.9" --junit gate.xml --markdown summary.md
    """
    import msgspec

    from assay.runner import api

    if as_json and markdown == "-":
        raise UsageError("--json and --markdown both print to stdout. Pass a file: --markdown FILE")
    result = api.gate(
        run,
        require,
        against=against,
        max_drop=max_drop,
        metrics=metrics,
        point=point,
        allow_missing=allow_missing,
        min_kappa=min_kappa,
    )
    if junit is not None:
        from assay.store.render.junit import gate_junit

        write_document(junit, gate_junit(result))
    document = ""
    if markdown is not None:
        from assay.store.render.markdown import gate_markdown

        document = gate_markdown(result)
        if markdown != "-":
            write_document(markdown, document.encode())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2))
    elif markdown == "-":
        click.echo(document, nl=False)
    else:
        print_gate(result)
    return result.exit_code


def print_gate(result: GateResult) -> None:
    """Print the verdict, a line for each requirement, the judges and the notes."""
    about = " · ".join(filter(None, (result.run, result.model, counted(result.cases, "case"))))
    heading(f"{result.verdict.upper()}  {about}")
    if result.against:
        block(f"against {result.against}", indent="      ")
    click.echo()
    table(*gate_table(result.decisions))
    if result.point:
        click.echo("decided by the values alone (--point), not by their intervals")
    for line in [*judge_lines(result.judges, tell), *result.notes]:
        block(line, indent="")


def write_document(path: str, content: bytes) -> None:
    """Write a file for CI or a browser. Raises UsageError if that is not possible.

    A file that exists is replaced only if it begins with the same three words, such as `### assay gate:`: then it is
    an earlier document of this kind. Any other file may be an input of a run.
    """
    target = Path(path)
    try:
        if target.is_file():
            with target.open("rb") as file:
                words = file.read(_START_BYTES).split()[:3]
            if words and words != content[:_START_BYTES].split()[:3]:
                raise UsageError(
                    f"{path} exists and is not an earlier output of this command, so it stays as it is. "
                    "Name another file, or remove this one first"
                )
        target.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
