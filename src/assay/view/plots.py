"""Charts of cases and comparisons as SVG. As in `charts.py`, positions are attributes and colours classes.

Only numbers stand inside the charts. Names are texts of the page, which escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from assay.core.report import Interval, PairedMetric

_WIDTH, _HEIGHT = 160, 14


def time_bar(start: float, length: float | None) -> Markup:
    """Return a bar on an axis of time from 0 to 1. Empty for a step without a time."""
    if length is None:
        return Markup("")
    # A step of a thousandth of the time must still be seen.
    width = max(1.5, length * _WIDTH)
    place = f'x="{min(start * _WIDTH, _WIDTH - width):.1f}" y="3" width="{width:.1f}"'
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="bar" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">'
        f'<rect class="track" x="0" y="3" width="{_WIDTH}" height="{_HEIGHT - 6}" rx="2"/>'
        f'<rect class="fill" {place} height="{_HEIGHT - 6}" rx="1"/></svg>'
    )


def test_bars(values: Sequence[float | None]) -> Markup:
    """Return a small bar for each test: the higher, the better. A test without a value has a dot."""
    step, height = 9, 18
    parts = []
    for number, value in enumerate(values):
        x = number * step
        if value is None:
            parts.append(f'<rect class="axis" x="{x + 3}" y="{height - 2}" width="2" height="2"/>')
            continue
        share = min(1.0, max(0.0, value))
        tall = max(2.0, share * height)
        kind = "good" if share >= 1 else "bad" if share == 0 else "fill"
        parts.append(f'<rect class="{kind}" x="{x}" y="{height - tall:.1f}" width="{step - 2}" height="{tall:.1f}"/>')
    width = max(1, len(values) * step)
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="test-bars" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def difference_scale(rows: Sequence[PairedMetric]) -> float:
    """Return the largest bound among some differences, for the axis that they share."""
    bounds = [abs(bound) for row in rows for bound in (row.interval or ())]
    bounds += [abs(row.difference) for row in rows if row.difference is not None]
    return max(bounds, default=0.0) or 1.0


def difference_bar(difference: float | None, interval: Interval | None, scale: float) -> Markup:
    """Return a difference with its interval on an axis from -scale to scale. Empty without a difference."""
    if difference is None:
        return Markup("")
    middle = _HEIGHT / 2

    def at(value: float) -> float:
        return (min(1.0, max(-1.0, value / scale)) + 1) * (_WIDTH - 8) / 2 + 4

    parts = [f'<line class="zero" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{_HEIGHT}"/>']
    if interval is not None:
        low, high = map(at, interval)
        parts.append(f'<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>')
        parts += [f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="3" y2="{_HEIGHT - 3}"/>' for x in (low, high)]
    parts.append(f'<circle class="fill" cx="{at(difference):.1f}" cy="{middle}" r="3.5"/>')
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="bar" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )
