"""Lines as bars and as pictures."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from assay.core.chart import ChartPoint, sparkline, svg

SVG = "{http://www.w3.org/2000/svg}"


def test_a_sparkline_has_a_bar_for_each_value() -> None:
    assert sparkline([0, 0.5, 1, None, 2, -1]) == "▁▅█ █▁"
    assert sparkline([5, 5], low=5, high=5) == "▁▁"


def test_points_stand_where_their_numbers_say() -> None:
    """Higher is above, later is to the right; an interval is a line through its point."""
    root = ET.fromstring(svg({"bm25": [ChartPoint(0, 0.0), ChartPoint(100, 1.0, 0.8, 1.0)]}, "t", "x", "y"))
    one, two = root.iter(f"{SVG}circle")
    assert float(one.get("cx", "")) < float(two.get("cx", ""))
    assert float(one.get("cy", "")) > float(two.get("cy", ""))
    through = [line for line in root.iter(f"{SVG}line") if line.get("stroke-opacity")]
    assert [line.get("x1") for line in through] == [two.get("cx")]


def test_names_are_only_text() -> None:
    """Nothing that a name says becomes part of the picture."""
    bad = '"><script>alert(1)</script>'
    root = ET.fromstring(svg({bad: [ChartPoint(1, 0.5)]}, bad, bad, bad))
    assert not list(root.iter(f"{SVG}script"))
    assert bad in [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("lines", [{}, {"empty": []}, {"one": [ChartPoint(0, 0)]}, {"far": [ChartPoint(1e6, 7.5)]}])
def test_any_lines_make_a_picture(lines: dict[str, list[ChartPoint]]) -> None:
    """Also none; values outside of 0 to 1 widen the axis."""
    root = ET.fromstring(svg(lines, "t", "x", "y"))
    assert root.get("role") == "img"
    assert len(list(root.iter(f"{SVG}circle"))) == sum(map(len, lines.values()))
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cy", "")) <= 360


def test_values_out_of_range_get_the_lowest_or_highest_bar() -> None:
    assert sparkline([-0.5, 0.5, 2.0]) == "▁▅█"
