"""The Stats and Perf tabs: aggregates of the output fields, and times of the observed runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from assay.suites.hop.store import FieldStats
from assay.suites.hop.task_folder import HopTask
from assay.view.hop.site import HOP, HopState, TaskHead, open_task, task_head
from assay.view.site import SITE, Site
from assay.view.text import as_text

# Bars of one distribution. The rest is one bar.
_MAX_BARS = 30
_MAX_LABEL = 200


class NumberCard(Struct):
    """A number with its name and what it is of."""

    label: str
    value: str
    note: str
    share: float | None = None
    """For a bar: the value if it is a share."""


class CountBar(Struct):
    """One bar of a distribution."""

    label: str
    count: int
    share: float


class Bars(Struct):
    """A distribution. `total` counts all values."""

    label: str
    total: int
    bars: list[CountBar]
    rest: int
    """Different values that have no bar."""


class StatsPage(Struct, kw_only=True):
    """The values of `hop_stats.html`."""

    head: TaskHead
    profiles: list[str]
    profile: str
    """The selected profile; empty for all results."""
    without_profile: int
    total: int
    cards: list[NumberCard]
    bars: list[Bars]
    errors: Bars | None
    bad_lines: int
    error: str = ""


class OperatorLine(Struct, kw_only=True):
    """One operator of the traced steps."""

    op: str
    calls: int
    success_rate: float
    avg_duration: float | None
    avg_retries: float | None


class PerfPage(Struct, kw_only=True):
    """The values of `hop_perf.html`."""

    head: TaskHead
    total: int
    unfinished: int
    without_duration: int
    cards: list[NumberCard]
    operators: list[OperatorLine]
    error: str = ""


async def show_stats(request: web.Request) -> web.StreamResponse:
    """Show the aggregates of all results, or with `?profile=NAME` of one profile."""
    site, state = request.app[SITE], request.app[HOP]
    task = await open_task(request)
    page = await asyncio.to_thread(_stats, site, state, task, request.query.get("profile", ""))
    return site.render("hop_stats.html", page)


async def show_perf(request: web.Request) -> web.StreamResponse:
    """Show the times of the runs that the observer has logged."""
    site, state = request.app[SITE], request.app[HOP]
    task = await open_task(request)
    return site.render("hop_perf.html", await asyncio.to_thread(_perf, site, state, task))


def _stats(site: Site, state: HopState, task: HopTask, profile: str) -> StatsPage:
    head = task_head(site, task, "stats")
    if not task.test_cases.is_dir():
        return StatsPage(
            head=head,
            profiles=[],
            profile="",
            without_profile=0,
            total=0,
            cards=[],
            bars=[],
            errors=None,
            bad_lines=0,
        )
    store = state.store(task)
    profiles = store.get_profiles()
    names = [each["profile"] for each in profiles if each["profile"] is not None]
    error = ""
    if profile and profile not in names:
        error, profile = f"There is no result of the profile {profile!r}.", ""
    stats = store.get_stats(profile or None)
    total: int = stats["total"]
    fields = store.field_stats(profile or None) if total else []
    errors = [] if profile else [(each["value"], each["count"]) for each in store.get_error_distribution()]
    return StatsPage(
        head=head,
        profiles=names,
        profile=profile,
        without_profile=sum(each["total"] for each in profiles if each["profile"] is None),
        total=total,
        cards=_completion_cards(stats) + _field_cards(fields, total) if total else [],
        bars=[
            _bars(_label(each), each.counts) for each in fields if each.field.agg_type == "distribution" and each.counts
        ],
        errors=_bars("Errors", errors) if errors else None,
        bad_lines=store.bad_lines,
        error=error,
    )


def _completion_cards(stats: dict[str, Any]) -> list[NumberCard]:
    total = stats["total"]
    cards = []
    names = {"completed": "Completed", "errors": "Errors", "parse_errors": "Plain texts, not JSON"}
    for key, label in names.items():
        if stats[key] or key != "parse_errors":
            share = stats[key] / total
            cards.append(NumberCard(label, f"{stats[key]:,}", f"of {total:,} ({share:.1%})"))
    return cards


def _field_cards(fields: list[FieldStats], total: int) -> list[NumberCard]:
    cards = []
    for each in fields:
        kind = each.field.agg_type
        if kind == "distribution":
            continue
        if kind == "mean":
            value = "–" if each.value is None else f"{each.value:,.1f}"
            cards.append(NumberCard(_label(each), value, f"mean of {each.values:,} numbers in {total:,} results"))
        else:
            what = "true" if kind == "rate" else "has a value"
            value = "–" if each.value is None else f"{each.value:.1%}"
            cards.append(NumberCard(_label(each), value, f"{what}, of {total:,} results", each.value))
    return cards


def _label(stats: FieldStats) -> str:
    return stats.field.display_label or stats.field.field_name


def _bars(label: str, counts: Sequence[tuple[Any, int]]) -> Bars:
    total, most = sum(count for _, count in counts), max(count for _, count in counts)
    bars = [CountBar(as_text(value)[:_MAX_LABEL], count, count / most) for value, count in counts[:_MAX_BARS]]
    return Bars(label, total, bars, max(0, len(counts) - _MAX_BARS))


def _perf(site: Site, state: HopState, task: HopTask) -> PerfPage:
    page = PerfPage(
        head=task_head(site, task, "perf"), total=0, unfinished=0, without_duration=0, cards=[], operators=[]
    )
    if not task.test_cases.is_dir():
        return page
    summary = state.store(task).get_perf_summary()
    page.total, page.unfinished = summary["total_runs"], summary["unfinished"]
    page.without_duration = summary["without_duration"]
    timed = page.total - page.without_duration
    for key, label in (("avg_duration", "Average"), ("p50", "P50"), ("p95", "P95")):
        value = summary[key]
        text = "–" if value is None else f"{value:,.2f} s" if value >= 1 else f"{value * 1000:,.1f} ms"
        page.cards.append(NumberCard(label, text, f"of {timed:,} call{'' if timed == 1 else 's'}"))
    page.operators = msgspec.convert(summary.get("operator_stats", []), list[OperatorLine])
    return page
