"""`assay compare`: compares runs case by case, and can fail a build after a regression."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.core.report import PairedRow
from assay.screen import block, counted, heading, rule, table, tell
from assay.store.render.tables import comparison_table, cost_table, judge_lines

if TYPE_CHECKING:
    from assay.store.comparison import Comparison, Flip, Flips

# Longer answers are cut. `assay show RUN CASE` prints them in full.
MAX_CHARS = 400
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
@click.option("--json", "as_json", is_flag=True, help="Print the whole comparison as JSON.")
def command(
    runs: tuple[str, ...], gate: str | None, min_kappa: float | None, flips: int, as_json: bool
) -> int:
    """Compare each NEW run with BASE on the cases that both have.

    BASE and NEW are RUN, or RUN@SUBJECT for one subject of a run. RUN is a run folder, an output folder with
    one run, or the beginning of a run's name. With one run only, its first subject is compared with the others.

    \b
    Examples:
      assay compare results-before results-now
      assay compare results-before results-now --fail-on-regression
      assay compare results-before results-now --fail-on-regression --min-kappa 0.7
      assay compare results@baseline results@concise --json
    """
    from assay import api  # imported here because completion and --help do not need it

    if min_kappa is not None and gate is None:
        raise UsageError(f"--min-kappa needs {GATE}: it sets which judges may decide the exit code")
    compared = api.compare(runs, flips=flips)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(compared), indent=2))
    else:
        for number, comparison in enumerate(compared.comparisons):
            if number:
                click.echo()
                rule()
            print_comparison(comparison)
        for note in compared.notes:
            block(f"note: {note}", indent="")
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
            if decides and (why := kappa_problem(judge.name, judge.calibration, floor)):
                refusals[f"{', '.join(decides)} cannot decide here: {why}; {judge.advice}"] = None
    return list(refusals)


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
    _print_rows(comparison.rows)
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
    for note in comparison.notes:
        block(f"note: {note}", indent="")


def _print_rows(rows: list[PairedRow]) -> None:
    """Print the metrics of both sides, set by set, and the cases that were left out."""
    if not rows:
        click.echo("no case has a score on either side")
        return
    table(*comparison_table(rows))
    # The row for all sets would repeat what its sets left out.
    for row in [row for row in rows if row.set] or rows:
        for reason, count in row.left_out.items():
            block(f"{row.name}: {count:,} left out, {reason}", indent="")


def _print_flips(name: str, flips: Flips) -> None:
    if not flips.count:
        return
    click.echo()
    heading(f"{name}: {flips.count:,}")
    for flip in flips.shown:
        _print_flip(flip)
    if more := flips.count - len(flips.shown):
        click.echo(f"  … {more:,} more (--flips N shows more)")


def _print_flip(flip: Flip) -> None:
    part = f",{flip.part}" if flip.part else ""
    row = "" if flip.id is None else f" · row {flip.id}"
    values = f"{flip.base.value:g} → {flip.new.value:g}"
    block(f"case {flip.new.index} · {flip.set}/{flip.case}{row} · {flip.metric}{part} · {values}")
    check = flip.check
    if check is not None:
        place = " ".join(filter(None, (check.get("step"), check["path"])))
        _print_value(f"{place} ({check['kind']}) expected", check["expected"])
        _print_value("base", check["base"])
        _print_value("new", check["new"])
        _print_value("why", check["why"])
        return
    _print_value("target", flip.target)
    for name, side in (("base", flip.base), ("new", flip.new)):
        answer = side.answer
        if isinstance(answer, list) and len(answer) == 1:
            answer = answer[0]
        _print_value(name, answer)
        _print_value(f"{name}, why", side.reason or None)


def _print_value(name: str, value: Any) -> None:
    """Print a value after its name. Prints nothing for None."""
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    block(f"{name}: {text}", indent="      ", max_chars=MAX_CHARS)
