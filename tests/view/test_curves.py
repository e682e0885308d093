"""Curves of reports as line charts."""

from __future__ import annotations

import re

from assay.core.report import Curve, Entry, Interval, Metric, Point, Report, Slice
from assay.view.charts import open_slices
from assay.view.curves import CurveChart, CurveLine, line_chart, line_sample, report_curves


def curve(*values: float | None, name: str = "recall", width: float = 0.1) -> Curve:
    points = []
    for number, value in enumerate(values):
        interval = None if value is None else Interval(value - width, value + width)
        points.append(Point(number * 50, Metric(name=name, value=value, denominator=9, interval=interval)))
    return Curve(name=name, x="messages", points=points)


def chart_of(*curves: Curve) -> CurveChart:
    entries = [Entry(name=f"memory {number}", curves=[each]) for number, each in enumerate(curves)]
    (chart,) = report_curves(Report(entries=entries))
    return chart


def test_curves_of_one_name_share_a_chart_with_a_line_for_each_subject() -> None:
    chart = chart_of(curve(0.2, 0.4), curve(0.3, 0.9))
    assert (chart.title, chart.x) == ("recall by messages", "messages")
    assert [line.name for line in chart.lines] == ["memory 0", "memory 1"]
    source = line_chart(chart)
    assert source.count("<polyline") == source.count("<polygon") == 2
    assert 'class="curve line-1"' in source
    assert report_curves(Report(entries=[Entry(name="m", curves=[curve(None, None)])])) == []


def test_a_point_that_was_not_measured_is_a_gap() -> None:
    source = line_chart(chart_of(curve(0.2, 0.4, None, 0.6, 0.7)))
    assert source.count("<polyline") == 2
    assert source.count("<circle") == 4


def test_the_axes_have_round_numbers_and_all_values_lie_inside() -> None:
    source = line_chart(chart_of(curve(0.2, 3.7, -0.4)))
    ticks = [float(text) for text in re.findall(r'text-anchor="end">([^<]+)<', source)]
    assert (ticks[0], ticks[-1]) == (-2.0, 4.0)
    heights = [float(y) for y in re.findall(r'cy="([^"]+)"', source)]
    assert all(8 <= height <= 162 for height in heights)
    one_point = line_chart(chart_of(curve(0.5)))
    assert "<circle" in one_point
    assert "nan" not in one_point


def test_more_lines_than_colours_are_dashed() -> None:
    assert "stroke-dasharray" not in line_sample(5)
    assert 'class="curve line-0" stroke-dasharray=' in line_sample(6)


def test_a_large_chart_has_more_room_instead_of_larger_texts() -> None:
    chart = chart_of(curve(0.2, 0.4))
    small, large = line_chart(chart), line_chart(chart, large=True)
    assert 'class="lines" viewBox="0 0 380 200"' in small
    assert 'class="lines large" viewBox="0 0 840 320"' in large
    assert large.count("<text") == small.count("<text")


def slices(by: str, count: int, value: float = 0.5) -> list[Slice]:
    return [
        Slice(by=by, name=str(number), metrics=[Metric(name="m", value=value, denominator=1)])
        for number in range(count)
    ]


def test_the_first_slices_are_open_until_there_are_about_twenty_bars() -> None:
    seconds = slices("seconds", 5, value=7.0)
    first = Entry(name="a", slices=[*seconds, *slices("tag", 12), *slices("field", 8)])
    second = Entry(name="b", slices=[*slices("tag", 12), *slices("field", 1)])
    assert open_slices(Report(entries=[first, second])) == {(0, "tag"), (0, "field")}
    assert open_slices(Report(entries=[Entry(name="a", slices=slices("tag", 100))])) == set()


def test_bands_of_many_lines_are_left_out() -> None:
    """They would hide each other and the lines."""
    metric = Metric(name="f1", value=0.5, denominator=4, interval=Interval(0.2, 0.8))
    points = [Point(1.0, metric), Point(2.0, metric)]
    few, many = (
        line_chart(CurveChart("f1", "messages", [CurveLine(f"m{number}", points) for number in range(count)]))
        for count in (6, 7)
    )
    assert few.count("<polygon") == 6
    assert many.count("<polygon") == 0
    assert many.count("<polyline") == 7
