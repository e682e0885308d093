"""`assay compare`: compares runs case by case, and can fail a build after a regression."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec

from assay.cli.completion import complete_runs
from assay.cli.gate import write_document
from assay.core.errors import UsageError
from assay.store.render.flips import flip_facts, flip_title
from assay.store.render.screen import block, counted, heading, rule, table, tell
from assay.store.render.tables import (
    comparison_table,
    cost_table,
    judge_lines,
    overview_table,
    purpose_table,
    row_remarks,
    slice_remarks,
    slice_table,
)

if TYPE_CHECKING:
    from assay.store.comparison import Comparison, ComparisonResult, Flips

GATE = "--fail-on-regression"


class CompareCommand(click.Command):
    """Lets `--fail-on-regression` have an optional value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat the flag without `=VALUE` as `=any`. Otherwise click would take the next run as its value."""
        return super().parse_args(ctx, [f"{word}=any" if word == GATE else word for word in args])


@click.command("compare", cls=CompareCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, metavar="BASE [NEW]...", shell_complete=complete_runs)
@click.option(
    GATE,
    "gate",
    type=click.Choice(["any", "significant"]),
    metavar="[=significant]",
    help="Exit with 1 if a case that was right is wrong now, or if a metric with graded scores is "
    "significantly worse. With =significant, only if a metric is significantly worse.",
)
@click.option(
    "--min-kappa",
    type=click.FloatRange(-1, 1),
    help="With --fail-on-regression: exit with 2 if a metric depends on a judge that has a lower kappa in its "
    "calibration, or no calibration.",
)
@click.option(
    "--flips",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Show at most this many cases that became wrong, and as many that became right.",
)
@click.option(
    "--by",
    default="",
    metavar="WORD",
    help="Compare groups of cases too: `tag` for each tag, `set`, `subject`, or the first word of tags such as "
    "`category:2`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole comparison as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option("--latex", "as_latex", is_flag=True, help="Print the tables in LaTeX, for a paper.")
@click.option("--html", metavar="FILE", help="Write the comparison as one HTML page, besides the output.")
def command(  # noqa: PLR0913 - one parameter for each option
    runs: tuple[str, ...],
    gate: str | None,
    min_kappa: float | None,
    flips: int,
    by: str,
    as_json: bool,
    as_markdown: bool,
    as_latex: bool,
    html: str | None,
) -> int:
    """Compare each NEW run with BASE on the cases that both have.

    BASE and NEW are RUN, or RUN@SUBJECT for one subject of a run. RUN is a run folder, an output folder with
    one run, or the beginning of a run's name. With one run only, its first subject is compared with the others.

    \b
    Examples:
      assay compare results-before results-now
      assay compare results-before results-now --fail-on-regression
      assay compare results-before results-now --fail-on-regression --min-kappa 0.7
      assay compare results-before results-now --by category
      assay compare results-before results-now --html comparison.html
      assay compare results-main results-this --markdown >> "$GITHUB_STEP_SUMMARY"
      assay compare results@baseline results@concise --json
    """
    from assay.runner import api

    if min_kappa is not None and gate is None:
        raise UsageError(f"--min-kappa needs {GATE}: it sets which judges may decide the exit code")
    if as_json + as_markdown + as_latex > 1:
        raise UsageError("--json, --markdown and --latex print to stdout. Pass only one of them")
    compared = api.compare(runs, flips=flips, by=by)
    if html is not None:
        from assay.store.render.html import comparison_html

        write_document(html, comparison_html(compared).encode())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(compared), indent=2))
    elif as_markdown:
        from assay.store.render.markdown import comparison_markdown

        click.echo(comparison_markdown(compared), nl=False)
    elif as_latex:
        from assay.store.render.latex import comparison_latex

        click.echo(comparison_latex(compared), nl=False)
    else:
        print_result(compared)
    if min_kappa is not None and (refusals := weak_judges(compared.comparisons, min_kappa)):
        for refusal in refusals:
            tell(refusal)
        return 2
    if gate is None:
        return 0
    failed = False
    for comparison in compared.comparisons:
        reasons = comparison.regressions if gate == "any" else comparison.significant_regressions
        for reason in reasons:
            tell(f"regression: {comparison.new.run} ({comparison.new.subject}): {reason}")
            failed = True
    return 1 if failed else 0


def weak_judges(comparisons: list[Comparison], floor: float) -> list[str]:
    """Return a message for each judge whose calibration is missing or below `floor`."""
    from assay.store.judges import kappa_problem

    refusals: dict[str, None] = {}
    for comparison in comparisons:
        metrics = {row.metric for row in comparison.rows}
        for judge in (*comparison.base.judges, *comparison.new.judges):
            decides = [name for name in judge.metrics if name in metrics]
            if decides and (why := kappa_problem(judge, judge.calibration, floor)):
                refusals[f"{', '.join(decides)} cannot decide here: {why}; {judge.advice}"] = None
    return list(refusals)


def print_result(compared: ComparisonResult) -> None:
    """Print an overview if there are several comparisons, then each of them."""
    if len(compared.comparisons) > 1:
        table(*overview_table(compared.comparisons))
        click.echo()
        rule()
    for number, comparison in enumerate(compared.comparisons):
        if number:
            click.echo()
            rule()
        print_comparison(comparison)
    for note in compared.notes:
        block(f"note: {note}", indent="")


def print_comparison(comparison: Comparison) -> None:
    """Print both sides, their metrics, the flipped cases, the unpaired cases, and time and tokens."""
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(side.started))
        model = f" · {side.model}" if side.model not in ("", side.subject) else ""
        subject = f"{side.subject} (reference)" if side.reference else side.subject
        cases = counted(side.cases, "case")
        block(f"{name:<4}  {side.run} · {subject}{model} · {started} · {cases}", indent="")
        for line in judge_lines(side.judges, tell):
            block(line, indent="      ")
    click.echo()
    if comparison.rows:
        table(*comparison_table(comparison.rows))
    else:
        click.echo("no case has a score on either side")
    for line in row_remarks(comparison.rows):
        block(line, indent="")
    if comparison.slices:
        click.echo()
        heading(f"by {comparison.slices[0].by}")
        table(*slice_table(comparison.slices))
        for line in slice_remarks(comparison.slices):
            block(line, indent="")
    _print_flips("now failing", comparison.now_failing)
    _print_flips("now passing", comparison.now_passing)
    for name, only in (("base", comparison.only_base), ("new", comparison.only_new)):
        if only.count:
            click.echo()
            heading(f"only in {name}: {only.count:,}")
            for case in only.shown:
                block(case)
            if more := only.count - len(only.shown):
                click.echo(f"  … {more:,} more")
    click.echo()
    table(*cost_table(comparison))
    purposes = purpose_table(comparison)
    if purposes.rows:
        click.echo()
        table(*purposes)
    for note in comparison.notes:
        block(f"note: {note}", indent="")


def _print_flips(name: str, flips: Flips) -> None:
    if not flips.count:
        return
    click.echo()
    heading(f"{name}: {flips.count:,}")
    for flip in flips.shown:
        block(flip_title(flip))
        for fact, text in flip_facts(flip):
            block(f"{fact}: {text}", indent="      ")
    if more := flips.count - len(flips.shown):
        click.echo(f"  … {more:,} more (--flips N shows more)")
