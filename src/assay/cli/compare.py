"""`assay compare`: what changed between two runs, and whether it got worse."""

from __future__ import annotations

import json
import time
from typing import Any

import click
import msgspec

from assay import api
from assay.cli.judge_report import judge_lines
from assay.cli.screen import block, heading, number, rule, table, tell
from assay.core.errors import UsageError
from assay.core.report import PairedRow
from assay.store.comparison import Comparison, Flip, Flips, OneSided, Side
from assay.store.judges import why_too_weak

_MOST_CHARACTERS = 400
_GATE = "--fail-on-regression"
_NUMBERS = ["base's", "new's", "difference", "95% interval", "n", "won/lost", "p", ""]
"""What `table_row` gives."""


class _Command(click.Command):
    """Takes the gate's flag without a value anywhere: click would take the next run for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Only `--fail-on-regression=VALUE` has a value."""
        return super().parse_args(ctx, [f"{word}=any" if word == _GATE else word for word in args])


@click.command("compare", cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, metavar="BASE [NEW]...")
@click.option(
    _GATE,
    "gate",
    type=click.Choice(["any", "significant"]),
    metavar="[=significant]",
    help="Exit 1 if a case that was right is wrong now, or another number is surely worse; "
    "with =significant, only if a number is surely worse.",
)
@click.option(
    "--min-kappa",
    type=click.FloatRange(-1, 1),
    help="With --fail-on-regression: exit 2 if a judge decides a number, and its calibration has a lower "
    "kappa, or it has none.",
)
@click.option(
    "--flips",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Show at most this many flipped cases each way.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
def command(
    runs: tuple[str, ...], gate: str | None, min_kappa: float | None, flips: int, as_json: bool
) -> int:
    """Compare each NEW with BASE on the cases that both have.

    BASE and NEW are runs, or RUN@SUBJECT for one subject of a run. RUN is a run folder, an output folder with
    one run, or the beginning of a run's name. One run alone: its first subject with its others.

    \b
    Examples:
      assay compare results-before results-now
      assay compare results-before results-now --fail-on-regression
      assay compare results-before results-now --fail-on-regression --min-kappa 0.7
      assay compare results@baseline results@concise --json
    """
    if min_kappa is not None and gate is None:
        raise UsageError(f"--min-kappa says who may decide an exit code; it needs {_GATE}")
    found = api.compare(runs, flips)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        for at, comparison in enumerate(found.comparisons):
            if at:
                click.echo()
                rule()
            _show(comparison)
        for note in found.notes:
            block(f"note: {note}", indent="")
    if min_kappa is not None and (refusals := weak_judges(found.comparisons, min_kappa)):
        for refusal in refusals:
            tell(refusal)
        return 2
    return _gate(found.comparisons, gate)


def weak_judges(comparisons: list[Comparison], floor: float) -> list[str]:
    """Why numbers of these comparisons cannot decide: each judge of one once, that is not good enough."""
    found: dict[str, None] = {}
    for one in comparisons:
        shown = {row.metric for row in one.rows}
        for judge in (*one.base.judges, *one.new.judges):
            decides = [name for name in judge.metrics if name in shown]
            if decides and (why := why_too_weak(judge.name, judge.calibration, floor)):
                found[f"{', '.join(decides)} cannot decide here: {why}; {judge.advice}"] = None
    return list(found)


def _gate(comparisons: list[Comparison], gate: str | None) -> int:
    reasons = [
        f"{one.new.run} ({one.new.subject}): {reason}"
        for one in comparisons
        for reason in (one.regressions if gate == "any" else one.significant_regressions)
    ]
    if gate is None or not reasons:
        return 0
    for reason in reasons:
        tell(f"regression: {reason}")
    return 1


def _show(found: Comparison) -> None:
    for name, side in (("base", found.base), ("new", found.new)):
        _show_side(name, side)
    click.echo()
    _show_rows(found.rows)
    for row in [row for row in found.rows if row.set] or found.rows:
        for reason, count in row.left_out.items():
            block(f"{row.name}: {count:,} left out, {reason}", indent="")
    _show_flips("now failing", found.now_failing)
    _show_flips("now passing", found.now_passing)
    _show_one_sided("base", found.only_base)
    _show_one_sided("new", found.only_new)
    _show_cost(found)
    for note in found.notes:
        block(f"note: {note}", indent="")


def _show_side(name: str, side: Side) -> None:
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(side.started))
    model = f" · {side.model}" if side.model not in ("", side.subject) else ""
    count = f"{side.cases:,} case{'s' * (side.cases != 1)}"
    subject = f"{side.subject} (reference)" if side.reference else side.subject
    block(f"{name:<4}  {side.run} · {subject}{model} · {started} · {count}", indent="")
    for line in judge_lines(side.judges):
        block(line, indent="      ")


def _show_rows(rows: list[PairedRow]) -> None:
    header = ["set", "metric", "base", "new", "difference", "95% interval", "n", "won/lost", "p", ""]
    if not rows:
        click.echo("no case has a score on either side")
        return
    several = {row.set for row in rows} > {""}
    table(header, [_row(row, all_sets="all sets" if several else "") for row in rows], names=2)


def _row(row: PairedRow, all_sets: str) -> list[str]:
    name = f"{row.metric}{',' if row.part else ''}{row.part}{'' if row.higher_is_better else ' ↓'}"
    return [row.set or all_sets, name, *table_row(row)]


def table_row(row: PairedRow) -> list[str]:
    """The numbers of a row: both values, their difference, how sure it is."""
    interval = f"{row.interval[0]:+.4f} to {row.interval[1]:+.4f}" if row.interval else ""
    return [
        number(row.base),
        number(row.new),
        "n/a" if row.difference is None else f"{row.difference:+.4f}",
        interval,
        f"{row.n:,}",
        f"{row.wins:,}/{row.losses:,}",
        "" if row.p is None else f"{row.p:.4f}" if row.p >= 0.0001 else f"{row.p:.1e}",
        row.verdict,
    ]


def _shown(run: api.Run, subject: str) -> str:
    """As the run's own outputs name it: a yardstick is told from a memory."""
    return str(run.summary.results.get(subject, {}).get("alias", subject))


def show_pairs(run: api.Run) -> None:
    """Every subject of a run with every later one, on the cases that both have a verdict for."""
    subjects = list(run.summary.results)
    if run.report is not None:
        subjects = [entry.name for entry in run.report.entries]
    if len(subjects) < 2 or run.exit_code == 130:
        return
    rows = []
    for at in range(len(subjects) - 1):
        for pair in api.compare([f"{run.folder}@{name}" for name in subjects[at:]], 0).comparisons:
            names = [_shown(run, side.subject) for side in (pair.base, pair.new)]
            rows += [[*names, *table_row(row)] for row in pair.rows[:1]]
    table(["base", "new", *_NUMBERS], rows, names=2)
    click.echo(f"which cases: assay compare {run.folder}")
    click.echo()


def show_scores(run: api.Run, names: dict[str, str]) -> None:
    """Every other subject of a run with the first, by each of these scores, on what both have."""
    subjects = list(run.summary.results)
    if len(subjects) < 2 or run.exit_code == 130:
        return
    try:
        found = api.compare([f"{run.folder}@{name}" for name in subjects], 0).comparisons
    except UsageError as error:  # the run itself is well, and so are its files
        block(f"not compared: {error}", indent="")
        return
    rows = [
        [_shown(run, pair.base.subject), _shown(run, pair.new.subject), shown, *table_row(row)]
        for pair in found
        for name, shown in names.items()
        for row in pair.rows
        if row.metric == name
    ]
    table(["base", "new", "score", *_NUMBERS], rows)
    click.echo(f"one by one: assay compare {run.folder}")
    click.echo()


def _show_flips(name: str, flips: Flips) -> None:
    if not flips.count:
        return
    click.echo()
    heading(f"{name}: {flips.count:,}")
    for flip in flips.shown:
        _show_flip(flip)
    if more := flips.count - len(flips.shown):
        click.echo(f"  … {more:,} more (--flips N shows more)")


def _show_flip(flip: Flip) -> None:
    part = f",{flip.part}" if flip.part else ""
    values = f"{flip.base.value:g} → {flip.new.value:g}"
    row = "" if flip.id is None else f" · row {flip.id}"
    block(f"case {flip.new.index} · {flip.set}/{flip.case}{row} · {flip.metric}{part} · {values}")
    check = flip.check
    if check is not None:
        place = " ".join(filter(None, (check.get("step"), check["path"])))
        _line(f"{place} ({check['kind']}) expected", check["expected"])
        _line("base", check["base"])
        _line("new", check["new"])
        _line("why", check["why"])
        return
    _line("target", flip.target)
    for name, side in (("base", flip.base), ("new", flip.new)):
        answer = side.answer
        _line(name, answer[0] if isinstance(answer, list) and len(answer) == 1 else answer)
        _line(f"{name}, why", side.reason or None)


def _line(name: str, value: Any) -> None:
    """A value of somebody else's below its name; nothing where there is none."""
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    block(f"{name}: {text}", indent="      ", most=_MOST_CHARACTERS)


def _show_one_sided(name: str, found: OneSided) -> None:
    if not found.count:
        return
    click.echo()
    heading(f"only in {name}: {found.count:,}")
    for case in found.shown:
        block(case)
    if more := found.count - len(found.shown):
        click.echo(f"  … {more:,} more")


def _show_cost(found: Comparison) -> None:
    click.echo()
    rows = [
        [
            name,
            f"{cost.seconds_per_case:.3f}",
            f"{cost.calls:,}",
            f"{cost.input_tokens:,}",
            f"{cost.output_tokens:,}",
        ]
        for name, cost in found.cost.items()
    ]
    table([f"{found.paired:,} paired", "seconds a case", "calls", "tokens in", "tokens out"], rows)
