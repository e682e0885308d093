"""`assay power`: how many cases a comparison of two systems needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.render.screen import block, table

if TYPE_CHECKING:
    from assay.store.power import PowerPlan

_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command("power", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--baseline", type=float, metavar="NUMBER", help="The value to compare with, between 0 and 1.")
@click.option("--run", metavar="RUN", shell_complete=complete_runs, help="Take the value and its clusters from a run.")
@click.option(
    "--metric",
    metavar="NAME",
    help="With --run: the metric, named as in `assay gate --require`, such as exact_match,strict.  [default: the "
    "first one]",
)
@click.option("--effect", type=float, metavar="NUMBER", help="The difference to find, such as 0.03 or -0.03.")
@click.option("--cases", type=click.IntRange(min=2), metavar="N", help="The number of cases: what can they show?")
@click.option("--power", type=_SHARE, help="The probability to find a true difference.  [default: 0.8]")
@click.option("--alpha", type=_SHARE, default=0.05, show_default=True, help="The p below which a difference counts.")
@click.option(
    "--correlation",
    type=click.FloatRange(-1, 1),
    default=0.5,
    show_default=True,
    help="How much both systems agree case by case; `assay compare --json` shows it for two runs.",
)
@click.option("--clusters-of", type=click.FloatRange(min=1), metavar="M", help="Cases per cluster. Needs --icc.")
@click.option("--icc", type=click.FloatRange(0, 1), help="Correlation within a cluster. Needs --clusters-of.")
@click.option("--unpaired", is_flag=True, help="Only for runs that answer different cases.")
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON.")
def command(  # noqa: PLR0913 - one parameter for each option
    baseline: float | None,
    run: str | None,
    metric: str | None,
    effect: float | None,
    cases: int | None,
    power: float | None,
    alpha: float,
    correlation: float,
    clusters_of: float | None,
    icc: float | None,
    unpaired: bool,
    as_json: bool,
) -> int:
    """Plan a comparison: how many cases show an effect, or which effect so many cases show.

    With --effect, the answer is the number of cases. With --cases, it is the smallest difference that so many cases
    show. With both, it is the power. Paired means that both systems answer the same cases, as `assay compare` needs.

    \b
    Examples:
      assay power --baseline 0.72 --effect 0.03
      assay power --baseline 0.72 --cases 500
      assay power --baseline 0.72 --effect 0.03 --cases 500
      assay power --baseline 0.6 --effect 0.05 --clusters-of 150 --icc 0.05
      assay power --run results --effect 0.03
      assay power --run results --metric "gsm8k exact_match,strict" --effect 0.03
    """
    import msgspec

    from assay.store.power import PowerQuestion, plan_power

    if (clusters_of is None) != (icc is None):
        raise UsageError("--clusters-of M and --icc X belong together: M cases per cluster that correlate by X")
    if metric is not None and run is None:
        raise UsageError("--metric needs --run")
    question = PowerQuestion(
        baseline=baseline,
        effect=effect,
        cases=cases,
        power=power,
        alpha=alpha,
        correlation=correlation,
        cluster_size=clusters_of or 1.0,
        icc=icc or 0.0,
        run=run or "",
        metric=metric or "",
        unpaired=unpaired,
    )
    plan = plan_power(question)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(plan), indent=2))
    else:
        # The smallest effect holds for a rise and for a drop.
        _print_plan(plan, sign="±" if effect is None else "")
    return 0


def _print_plan(plan: PowerPlan, sign: str) -> None:
    """Print a line for each kind of comparison, then the assumptions."""
    rows = []
    for answer in plan.answers:
        effect = "none" if answer.effect is None else f"{answer.effect:+.4f}".rstrip("0").replace("+", sign or "+")
        clusters = "" if answer.clusters is None else f"{answer.clusters:,}"
        rows.append([answer.comparison, f"{answer.cases:,}", clusters, effect, f"{answer.power:.3g}"])
    header = ["comparison", f"{plan.unit}s of each run", "clusters", "effect", "power"]
    if all(answer.clusters is None for answer in plan.answers):
        header.remove("clusters")
        rows = [[*row[:2], *row[3:]] for row in rows]
    table(header, rows, 1)
    about = [f"baseline {plan.baseline:.4g}", f"p below {plan.alpha:g}"]
    if plan.run:
        about[0] += f" ({plan.metric} of {plan.run})"
    if any(answer.comparison == "paired" for answer in plan.answers):
        about.append(f"correlation {plan.correlation:g} between the systems")
    if plan.cluster_size > 1 or abs(plan.design_effect - 1) > 0.01:
        about.append(f"{plan.cluster_size:.4g} {plan.unit}s per cluster, design effect {plan.design_effect:.3g}")
    block(" · ".join(about), indent="")
    for note in plan.notes:
        block(note, indent="")
