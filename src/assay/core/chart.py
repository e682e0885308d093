"""Line charts: a sparkline for terminals, an SVG for files and pages.

The SVG needs no script, font or network. It has colours for light and dark pages, and a title for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 640, 360
# Margins for the axes and the title.
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 24, 58, 44
_ROW = 18  # height of a line of the legend
_COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#374151}.t{font-size:14px;font-weight:600}"
    ".a{stroke:#d1d5db;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#d1d5db}.a{stroke:#4b5563}}"
)


class ChartPoint(NamedTuple):
    """A point of a line. `low` and `high` are the bounds of its interval, if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


def sparkline(values: Sequence[float | None], low: float = 0.0, high: float = 1.0) -> str:
    """Return a bar of one of eight heights for each value. None is a gap."""
    span = (high - low) or 1.0
    return "".join(" " if value is None else _BARS[min(7, max(0, int((value - low) / span * 8)))] for value in values)


def svg(lines: Mapping[str, Sequence[ChartPoint]], title: str, x: str, y: str) -> str:
    """Return an SVG of all lines with points, intervals and a legend. The y axis is at least 0 to 1."""
    frame = _Axes([point for line in lines.values() for point in line], len(lines))
    drawn, legend = [], []
    for number, (name, line) in enumerate(lines.items()):
        drawn.append(_draw_line(frame, line, number))
        legend.append(_draw_legend(number, name))
    box = f'viewBox="0 0 {_WIDTH} {frame.height}" role="img" aria-label="{escape(title, quote=True)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text class="t" x="{_LEFT}" y="22">{escape(title)}</text>',
        *_axes(frame, x, y),
        *drawn,
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Axes:
    """Converts values to positions in the picture."""

    def __init__(self, points: list[ChartPoint], lines: int) -> None:
        xs = [point.x for point in points] or [0.0]
        ys = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
        self.x0, self.x1 = min(0.0, *xs), max(1e-9, *xs)
        self.y0, self.y1 = min([0.0, *ys]), max([1.0, *ys])
        self.height = _HEIGHT + _ROW * lines

    def x(self, value: float) -> float:
        share = (value - self.x0) / (self.x1 - self.x0)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.y0) / (self.y1 - self.y0)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def _axes(frame: _Axes, x: str, y: str) -> list[str]:
    parts = []
    for tick in _ticks(frame.y0, frame.y1):
        height = frame.y(tick)
        parts.append(f'<line class="a" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height}" y2="{height}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{height + 4}" text-anchor="end">{tick:g}</text>')
    for tick in _ticks(frame.x0, frame.x1):
        below = _HEIGHT - _BOTTOM + 16
        parts.append(f'<text x="{frame.x(tick)}" y="{below}" text-anchor="middle">{tick:,g}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 12}">{escape(y)}</text>')
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Return four to ten round numbers: steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    # The tolerance keeps a bound such as 0.3, whose quotient is not exact in floating point.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(count * step, 10) for count in range(first, last + 1)]


def _draw_line(frame: _Axes, line: Sequence[ChartPoint], number: int) -> str:
    if not line:
        return ""
    path = " ".join(f"{frame.x(point.x)},{frame.y(point.y)}" for point in line)
    colour = _COLOURS[number % len(_COLOURS)]
    parts = [f'<polyline points="{path}" fill="none" {_stroke(number)}/>']
    for point in line:
        x = frame.x(point.x)
        if point.low is not None and point.high is not None:
            ends = f'y1="{frame.y(point.low)}" y2="{frame.y(point.high)}"'
            parts.append(f'<line x1="{x}" x2="{x}" {ends} stroke="{colour}" stroke-opacity="0.4"/>')
        parts.append(f'<circle cx="{x}" cy="{frame.y(point.y)}" r="3" fill="{colour}"/>')
    return "\n".join(parts)


def _draw_legend(number: int, name: str) -> str:
    y = _HEIGHT + _ROW * number + 4
    return (
        f'<line x1="{_LEFT}" x2="{_LEFT + 24}" y1="{y}" y2="{y}" {_stroke(number)}/>'
        f'<text x="{_LEFT + 32}" y="{y + 4}">{escape(name)}</text>'
    )


def _stroke(number: int) -> str:
    """Return colour and dashes of a line. After the last colour, the colours repeat with other dashes."""
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="2"{dashed}'
