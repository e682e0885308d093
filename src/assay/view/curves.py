"""The curves of a report as line charts: one chart a metric, one line a subject.

    for chart in report_curves(report):
        line_chart(chart)       # SVG; the template writes the legend and the numbers as text beside it

A value that was not measured is a gap. A band around a line is the 95 % interval, unless there are many lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from assay.core.report import Point, Report
from assay.view.text import plain

# Pixels. A picture is hardly scaled, because its texts would be scaled too: a page with room has a larger one.
_SMALL, _LARGE = (380, 200), (840, 320)
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 12, 8, 38
COLOURS = 6
"""Classes `line-0` to `line-5` of the style sheet. Further lines are dashed, so that no two lines look the same."""
_DASHES = ("", "5 3", "1.5 2.5", "8 3 2 3")

# Lines of a chart that shows their intervals.
_MAX_BANDS = 6


class CurveLine(Struct, frozen=True):
    """One line of a chart, with the points that were measured."""

    name: str
    points: list[Point]


class CurveChart(Struct, frozen=True):
    """Lines that share their axes."""

    title: str
    x: str
    """What the horizontal axis counts."""
    lines: list[CurveLine]

    @property
    def has_bands(self) -> bool:
        """Whether intervals are drawn. The bands of more lines would hide each other; the table has the numbers."""
        return len(self.lines) <= _MAX_BANDS


def report_curves(report: Report) -> list[CurveChart]:
    """Return a chart for each curve that the entries of a report have. Curves of one name share a chart."""
    charts: dict[tuple[str, str], CurveChart] = {}
    for entry in report.entries:
        for curve in entry.curves:
            if not any(point.metric.value is not None for point in curve.points):
                continue
            title = curve.title or f"{curve.name} by {curve.x}"
            chart = charts.setdefault((curve.name, curve.x), CurveChart(title, curve.x, []))
            chart.lines.append(CurveLine(entry.title, curve.points))
    return list(charts.values())


def line_class(number: int) -> str:
    """Return the class with the colour of a line."""
    return f"line-{number % COLOURS}"


def line_sample(number: int) -> Markup:
    """Return a short piece of a line, for the legend."""
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="sample" width="22" height="10" viewBox="0 0 22 10" aria-hidden="true">'
        f'<line class="curve {line_class(number)}"{_dash(number)} x1="0" x2="22" y1="5" y2="5"/></svg>'
    )


def line_chart(chart: CurveChart, *, large: bool = False) -> Markup:
    """Return the lines with axes. The vertical axis has at least 0 to 1; scores are shares in most suites."""
    points = [point for line in chart.lines for point in line.points if point.metric.value is not None]
    axes = _ChartFrame(points, *(_LARGE if large else _SMALL))
    width, height = axes.width, axes.height
    parts = []
    for value in axes.y_ticks:
        y = axes.y(value)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    below = height - _BOTTOM + 16
    parts += [
        f'<text x="{axes.x(value)}" y="{below}" text-anchor="middle">{value:,.10g}</text>' for value in axes.x_ticks
    ]
    for number, line in enumerate(chart.lines):
        parts += _draw(axes, line, number, with_band=chart.has_bands)
    svg = Markup(
        '<svg class="lines{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}'
        '<text class="axis-title" x="{}" y="{}" text-anchor="middle">{}</text></svg>'
    )
    drawn = Markup("".join(parts))  # noqa: S704 - numbers only
    middle = (_LEFT + width - _RIGHT) / 2
    axis = plain(chart.x)
    size = " large" if large else ""
    return svg.format(size, width, height, f"Lines over {axis}", drawn, middle, height - 4, axis)


class _ChartFrame:
    """Places values in the picture. Its ticks are round numbers."""

    def __init__(self, points: Sequence[Point], width: int, height: int) -> None:
        self.width, self.height = width, height
        xs = [point.x for point in points] or [0.0]
        ys = [point.metric.value or 0.0 for point in points]
        ys += [bound for point in points for bound in point.metric.interval or () if math.isfinite(bound)]
        self._x0, self._x1 = min(xs), max(xs)
        # A curve over counts begins at 0, unless it is about a far part of the axis.
        if self._x0 >= 0 and self._x0 < self._x1 / 2:
            self._x0 = 0.0
        self.y_ticks = _ticks(min([0.0, *ys]), max([1.0, *ys]), 4)
        self._y0, self._y1 = self.y_ticks[0], self.y_ticks[-1]
        self.x_ticks = [tick for tick in _ticks(self._x0, self._x1, 5) if self._x0 <= tick <= self._x1]

    def x(self, value: float) -> float:
        share = (value - self._x0) / ((self._x1 - self._x0) or 1.0)
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self._y0) / (self._y1 - self._y0)
        return round(self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM), 1)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from the last one below `low` to the first one above `high`, about `most` steps apart."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, max(last, first + 1) + 1)]


def _draw(axes: _ChartFrame, line: CurveLine, number: int, *, with_band: bool) -> list[str]:
    """Return the band, the line and the points of one line. Points that were not measured interrupt it."""
    parts = []
    for is_measured, group in groupby(line.points, key=lambda point: point.metric.value is not None):
        if not is_measured:
            continue
        places = [(axes.x(point.x), axes.y(point.metric.value or 0.0), point.metric) for point in group]
        bands = [(x, metric.interval) for x, _, metric in places if metric.interval is not None]
        if with_band and len(bands) > 1:
            upper = [f"{x},{axes.y(high)}" for x, (_, high) in bands]
            lower = [f"{x},{axes.y(low)}" for x, (low, _) in reversed(bands)]
            parts.append(f'<polygon class="band {line_class(number)}" points="{" ".join([*upper, *lower])}"/>')
        if len(places) > 1:
            path = " ".join(f"{x},{y}" for x, y, _ in places)
            parts.append(f'<polyline class="curve {line_class(number)}"{_dash(number)} points="{path}"/>')
        parts += [f'<circle class="{line_class(number)}" cx="{x}" cy="{y}" r="2"/>' for x, y, _ in places]
    return parts


def _dash(number: int) -> str:
    dash = _DASHES[number // COLOURS % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""
