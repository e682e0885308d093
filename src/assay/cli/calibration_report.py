"""The end of a calibration on the screen: how well judge and labels agree, overall and by category."""

from __future__ import annotations

from collections.abc import Sequence

import click

from assay.api import Run
from assay.cli.footer import print_footer as closing
from assay.cli.screen import block, counted, heading, table
from assay.core.judges import Agreement, Calibration
from assay.core.types import Record
from assay.store.calibrations import shown
from assay.store.judges import judges_in

_MOST_CHARACTERS = 4000
_HEADER = [
    *("category", "n", "base rate", "accuracy", "balanced", "kappa", "95% interval", "AUC"),
    *("false acc.", "false rej.", "invalid"),
]


def calibration_in(run: Run) -> Calibration | None:
    """What a run of calibrations found; none where it has not come to its end."""
    return next((judge.calibration for judge in judges_in(run.results)), None)


def report_calibration(run: Run) -> None:
    """Everything a person wants to know when a calibration ends or is looked at."""
    found = calibration_in(run)
    if found is not None:
        _head(found)
        _table(found)
        _confusion(found)
        _below(found)
        click.echo()
    closing(run)


def show_answer(records: Sequence[Record]) -> None:
    """The answer of a row, which the judge looked at."""
    for record in records:
        heading("answer")
        block(str(record.data), most=_MOST_CHARACTERS)


def _head(found: Calibration) -> None:
    votes = f" · {found.votes} votes" if found.votes > 1 else ""
    what = "answers" if found.kind == "answer" else "texts by rubrics"
    block(f"judge   {found.judge} · {what}{votes} · {found.fingerprint}", indent="")
    block(f"labels  {found.labels} · {counted(found.overall.n + found.overall.invalid, 'row')}", indent="")
    click.echo()


def _table(found: Calibration) -> None:
    rows = [_row("all", found.overall)]
    rows += [_row(f"  {name}", one) for name, one in found.categories.items()]
    shown = len(_HEADER) - (not found.overall.invalid)
    table(_HEADER[:shown], [row[:shown] for row in rows])
    click.echo()


def _row(name: str, found: Agreement) -> list[str]:
    low_high = found.interval
    return [
        name,
        f"{found.n:,}",
        _number(found.base_rate),
        _number(found.accuracy),
        _number(found.balanced_accuracy),
        _number(found.kappa),
        f"{low_high[0]:.2f} – {low_high[1]:.2f}" if low_high else "",
        _number(found.auc),
        f"{found.false_accepts.count:,}/{found.false_accepts.of:,}",
        f"{found.false_rejects.count:,}/{found.false_rejects.of:,}",
        f"{found.invalid:,}",
    ]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _confusion(found: Calibration) -> None:
    """What each said how often."""
    one = found.overall
    accepts, rejects = one.false_accepts, one.false_rejects
    rows = [
        ["label: right", f"{rejects.of - rejects.count:,}", f"{rejects.count:,}"],
        ["label: wrong", f"{accepts.count:,}", f"{accepts.of - accepts.count:,}"],
    ]
    table(["", "judge accepts", "judge rejects"], rows)
    click.echo()


def _below(found: Calibration) -> None:
    """How the interval was made, how the voters agree, what was left out, and the line that is remembered."""
    one = found.overall
    if one.interval:
        clusters = (
            f" over {counted(one.clusters, 'cluster')}" if one.clusters < one.n else " over single rows"
        )
        block(f"interval of kappa: {one.interval_method}{clusters}", indent="")
    if found.among_votes:
        rows, same = found.among_votes.rows, found.among_votes.unanimous
        block(f"voters: unanimous on {same:,} of {counted(rows, 'row')} ({same / rows:.1%})", indent="")
    for why, count in found.left_out.items():
        block(f"left out: {counted(count, 'row')}, {why}", indent="")
    block(shown(found), indent="")
