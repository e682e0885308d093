"""Small charts as SVG: an interval beside its number, and the distribution of a column.

The pages forbid inline styles, so positions are attributes and colours are classes of `assay.css`. Every chart has its
numbers as text beside it; it is hidden from screen readers or has a label.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from assay.core.report import Interval, Report
from assay.store.open_run import Distribution

_WIDTH, _HEIGHT = 120, 14
_CHART_WIDTH, _CHART_HEIGHT, _AXIS = 288, 72, 14
# Rows of the slices that are open from the start.
_MAX_OPEN = 24


def interval_bar(value: float | None, interval: Interval | None = None) -> Markup:
    """Return a bar from 0 to the value with its interval, on an axis from 0 to 1. Empty for a value outside of it."""
    if value is None or not 0 <= value <= 1:
        return Markup("")
    middle = _HEIGHT / 2
    parts = [
        f'<rect class="track" x="0" y="3" width="{_WIDTH}" height="{_HEIGHT - 6}" rx="2"/>',
        f'<rect class="fill" x="0" y="3" width="{value * _WIDTH:.1f}" height="{_HEIGHT - 6}" rx="2"/>',
    ]
    if interval is not None:
        low, high = (min(1.0, max(0.0, bound)) * _WIDTH for bound in interval)
        parts.append(f'<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>')
        parts += [f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{_HEIGHT - 2}"/>' for x in (low, high)]
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="bar" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def open_slices(report: Report) -> set[tuple[int, str]]:
    """Return which tables of slices a page shows without a click, by the number of the entry and what they are by.

    These are the first ones that have bars, until there are about twenty: more of them would hide what follows.
    """
    chosen: set[tuple[int, str]] = set()
    rows = 0
    for number, entry in enumerate(report.entries):
        for by in dict.fromkeys(each.by for each in entry.slices):
            metrics = [metric for each in entry.slices if each.by == by for metric in each.metrics]
            if not any(interval_bar(metric.value) for metric in metrics):
                continue
            rows += len(metrics)
            if rows > _MAX_OPEN:
                return chosen
            chosen.add((number, by))
    return chosen


def histogram(data: Distribution, unit: str, links: Sequence[str] = ()) -> Markup:
    """Return bars of the counts, with the axis from 0 to the last edge. With `links`, each bar leads to an address."""
    tallest = max(data.counts) or 1
    # All charts are of one size, so that the texts of their axes are.
    bar_width = _CHART_WIDTH / len(data.counts)
    parts = []
    for number, count in enumerate(data.counts):
        # A bar of one row among a million must still be seen.
        height = max(1.0, count / tallest * _CHART_HEIGHT) if count else 0.0
        place = f'x="{number * bar_width:.1f}" y="{_CHART_HEIGHT - height:.1f}"'
        low, high = data.edges[number], data.edges[number + 1]
        is_open = number + 1 == len(data.counts) and data.largest >= high
        span = f"{low:g} {unit} and more" if is_open else f"{low:g} to {high:g} {unit}"
        title = f"<title>{' '.join(span.split())}: {count:,}</title>"
        bar = f'<rect class="fill" {place} width="{bar_width - 1:.1f}" height="{height:.1f}">{title}</rect>'
        if links and count:
            # Not in the order of the tab key: a hundred bars would stand before the table, whose form does the same.
            bar = f'<a href="{escape(links[number])}" tabindex="-1">{bar}</a>'
        parts.append(bar)
    base = _CHART_HEIGHT + 0.5
    parts.append(f'<line class="axis" x1="0" x2="{_CHART_WIDTH}" y1="{base}" y2="{base}"/>')
    bottom = _CHART_HEIGHT + _AXIS - 2
    parts.append(f'<text x="0" y="{bottom}">0</text>')
    last = f"{data.edges[-1]:.6g}{'+' if data.largest >= data.edges[-1] else ''} {unit}".strip()
    parts.append(f'<text x="{_CHART_WIDTH}" y="{bottom}" text-anchor="end">{last}</text>')
    role = "group" if links else "img"
    return Markup(  # noqa: S704 - numbers, a unit of our own, and escaped addresses
        f'<svg class="histogram" viewBox="0 0 {_CHART_WIDTH} {_CHART_HEIGHT + _AXIS}" role="{role}" '
        f'aria-label="Distribution, median {data.median:.3g} {unit}">{"".join(parts)}</svg>'
    )
