"""Lines over a number: a sparkline for terminals, an SVG for everything else. No script, no font, no address.

The SVG has its colours for light and for dark pages in it, and a title for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 24, 58, 44
_ROW = 18
_COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#374151}.t{font-size:14px;font-weight:600}"
    ".a{stroke:#d1d5db;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#d1d5db}.a{stroke:#4b5563}}"
)


class Point(NamedTuple):
    """Where a line passes; `low` and `high` are its interval, if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


def sparkline(values: Sequence[float | None], low: float = 0.0, high: float = 1.0) -> str:
    """A bar of eight heights for each value; a gap where there is none."""
    span = (high - low) or 1.0
    return "".join(
        " " if value is None else _BARS[min(7, max(0, int((value - low) / span * 8)))] for value in values
    )


def svg(lines: Mapping[str, Sequence[Point]], title: str, x: str, y: str) -> str:
    """Every line with its points, intervals and a legend; the y axis is 0 to 1 unless values leave it."""
    points = [point for line in lines.values() for point in line]
    frame = _Frame(points, len(lines))
    drawn = [
        _line(frame, line, _COLOURS[at % len(_COLOURS)], _DASHES[at // len(_COLOURS) % len(_DASHES)])
        for at, line in enumerate(lines.values())
    ]
    legend = [_entry(frame, at, name) for at, name in enumerate(lines)]
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


class _Frame:
    """Where numbers stand on the picture."""

    def __init__(self, points: list[Point], lines: int) -> None:
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


def _axes(frame: _Frame, x: str, y: str) -> list[str]:
    found = []
    for tick in _ticks(frame.y0, frame.y1):
        at = frame.y(tick)
        found.append(f'<line class="a" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
        found.append(f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{tick:g}</text>')
    found += [
        f'<text x="{frame.x(tick)}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{tick:,g}</text>'
        for tick in _ticks(frame.x0, frame.x1)
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    found.append(f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    found.append(f'<text x="{_LEFT}" y="{_TOP - 12}">{escape(y)}</text>')
    return found


def _ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers: steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(at * step, 10) for at in range(first, math.floor(high / step + 1e-9) + 1)]


def _line(frame: _Frame, line: Sequence[Point], colour: str, dash: str) -> str:
    if not line:
        return ""
    path = " ".join(f"{frame.x(point.x)},{frame.y(point.y)}" for point in line)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>']
    for point in line:
        at = frame.x(point.x)
        if point.low is not None and point.high is not None:
            ends = f'y1="{frame.y(point.low)}" y2="{frame.y(point.high)}"'
            parts.append(f'<line x1="{at}" x2="{at}" {ends} stroke="{colour}" stroke-opacity="0.4"/>')
        parts.append(f'<circle cx="{at}" cy="{frame.y(point.y)}" r="3" fill="{colour}"/>')
    return "\n".join(parts)


def _entry(frame: _Frame, at: int, name: str) -> str:
    y = _HEIGHT + _ROW * at + 4
    colour, dash = _COLOURS[at % len(_COLOURS)], _DASHES[at // len(_COLOURS) % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    stroke = f'stroke="{colour}" stroke-width="2"{dashed}'
    return (
        f'<line x1="{_LEFT}" x2="{_LEFT + 24}" y1="{y}" y2="{y}" {stroke}/>'
        f'<text x="{_LEFT + 32}" y="{y + 4}">{escape(name)}</text>'
    )
