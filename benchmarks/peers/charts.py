"""Bar charts as SVG: no script, no font file, colours for light and dark pages."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

_WIDTH, _LEFT, _RIGHT = 720, 150, 180
_ROW, _GAP, _HEAD = 24, 34, 56
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-size:15px;font-weight:600}.s{fill:#57606a}"
    ".own{fill:#0757b5}.other{fill:#9a6700}.floor{fill:#8b949e}.none{fill:#57606a;font-style:italic}"
    ".page{fill:#ffffff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s,.none{fill:#9da7b3}.page{fill:#0d1117}"
    ".own{fill:#58a6ff}.other{fill:#d29922}.floor{fill:#6e7681}}"
)


class Bar(NamedTuple):
    """A program's value; without a value, the words that say why."""

    name: str
    value: float | None
    label: str


class Panel(NamedTuple):
    """Bars with one scale under a heading."""

    heading: str
    bars: list[Bar]


def bar_chart(title: str, panels: list[Panel]) -> str:
    """Return an SVG with the panels one below the other. Each scale is linear and begins at 0."""
    parts: list[str] = []
    y = _HEAD
    for panel in panels:
        parts.append(f'<text class="s" x="16" y="{y}">{escape(panel.heading)}</text>')
        y += 12
        largest = max((bar.value for bar in panel.bars if bar.value is not None), default=0.0) or 1.0
        for bar in panel.bars:
            parts.append(f'<text x="{_LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(bar.name)}</text>')
            if bar.value is None:
                parts.append(f'<text class="none" x="{_LEFT}" y="{y + 16}">{escape(bar.label)}</text>')
            else:
                # A value above 0 is at least one unit wide, so that it is seen.
                width = round(bar.value / largest * (_WIDTH - _LEFT - _RIGHT), 1)
                width = max(1.0, width) if bar.value else 0
                kind = {"assay": "own", "bare script": "floor"}.get(bar.name, "other")
                parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{y + 3}" width="{width}" height="18"/>')
                parts.append(f'<text x="{_LEFT + width + 6}" y="{y + 16}">{escape(bar.label)}</text>')
            y += _ROW
        y += _GAP
    height = y - _GAP + 12
    box = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        f'<text class="t" x="16" y="26">{escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"
