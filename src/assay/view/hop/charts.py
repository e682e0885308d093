"""Charts of the HOP pages as SVG: the gauge of a number, and bars of counts. Colours are classes of `assay.css`."""

from __future__ import annotations

from math import pi

from markupsafe import Markup

from assay.view.hop.result_card import Gauge
from assay.view.text import plain

_RADIUS = 26
_BOX = 64
_BAR_WIDTH = 240
_BAR_HEIGHT = 12


def gauge(data: Gauge, *, small: bool = False) -> Markup:
    """Return a circle that is filled up to the number, with the number in it. `small` is for expected values."""
    around = 2 * pi * _RADIUS
    middle, size = _BOX // 2, 44 if small else _BOX
    circle = f'cx="{middle}" cy="{middle}" r="{_RADIUS}"'
    # It starts at the top. A dash of the length of the filled part, then a gap.
    dashes = f'stroke-dasharray="{data.share * around:.1f} {around:.1f}"'
    filled = f'{circle} {dashes} transform="rotate(-90 {middle} {middle})"'
    return Markup(
        '<svg class="gauge {}" width="{}" height="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<circle class="ring" {}/><circle class="arc" {}/>'
        '<text x="{}" y="{}" text-anchor="middle" dominant-baseline="central">{}</text></svg>'
    ).format(
        f"{data.tone}{' small' if small else ''}",
        size,
        size,
        _BOX,
        _BOX,
        plain(f"{data.value} {data.band}".strip()),
        Markup(circle),  # noqa: S704 - numbers only
        Markup(filled),  # noqa: S704 - numbers only
        middle,
        middle,
        data.value[:6],
    )


def count_bar(share: float) -> Markup:
    """Return a horizontal bar for a share from 0 to 1."""
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="bar count" viewBox="0 0 {_BAR_WIDTH} {_BAR_HEIGHT}" preserveAspectRatio="none" '
        'aria-hidden="true">'
        f'<rect class="track" x="0" y="0" width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" rx="2"/>'
        f'<rect class="fill" x="0" y="0" width="{share * _BAR_WIDTH:.1f}" height="{_BAR_HEIGHT}" rx="2"/></svg>'
    )
