"""Times of day, rates and units: what a bare number does not say."""

from __future__ import annotations

import pytest

from assay.scoring.offline.measures import ClockTime, clock_times_in, rates_in, same_rate, units_in
from assay.scoring.offline.numbers import durations_in, in_digits
from assay.scoring.offline.words import fold


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("7 am", [(7, 0, "am")]),
        ("at 7:30 p.m.", [(7, 30, "pm")]),
        ("19:30", [(7, 30, "pm")]),
        ("7:30", [(7, 30, "")]),
        ("seven in the evening", [(7, 0, "pm")]),
        ("12 am, 12 pm", [(0, 0, "am"), (0, 0, "pm")]),
        ("at noon", [(0, 0, "pm")]),
        ("下午3点", [(3, 0, "pm")]),
        ("7 cats and 3,000 dogs", []),
        ("88:99", []),
    ],
)
def test_times_of_day(text: str, times: list[tuple[int, int, str]]) -> None:
    expected = [ClockTime(hour * 60 + minute, half) for hour, minute, half in times]
    assert clock_times_in(in_digits(fold(text))) == expected


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("every day", [1]),
        ("each morning", [1]),
        ("weekly", [7]),
        ("every Monday", [7]),
        ("three times a week", [7]),
        ("every other week", [14]),
        ("every two weeks", [14]),
        ("每天", [1]),
        ("every few days", []),
        ("a week", []),
    ],
)
def test_rates(text: str, days: list[float]) -> None:
    assert rates_in(in_digits(fold(text))) == days


def test_rates_in_other_units_are_nearly_equal() -> None:
    assert same_rate(*rates_in("every 4 weeks, every 28 days"))
    assert not same_rate(*rates_in("every week, every month"))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("$20", "20 dollars", True),
        ("20 bucks", "20 USD", True),
        ("$20", "20 euros", False),
        ("£20", "20 pounds", True),
        ("20 lbs", "20 pounds", True),
        ("20 kg", "20 pounds", False),
        ("¥20", "20元", True),
        ("20%", "20 percent", True),
        ("20 km", "20 miles", False),
    ],
)
def test_units(one: str, two: str, same: bool) -> None:
    (first,), (second,) = units_in(one).values(), units_in(two).values()
    assert bool(first & second) is same


def test_letters_of_other_alphabets_are_no_names() -> None:
    """`i` matches the Turkish i without a dot in a pattern that ignores case, but no table has it."""
    text = "5 mınutes a day, every mınute, 5 mıles"
    assert [each.unit for each in durations_in(text)] == []
    assert (rates_in(text), units_in(text)) == ([], {})


@pytest.mark.parametrize("text", ["1" * 9000, "every " + "9" * 9000 + " days", "$" * 9000, "1:" * 9000])
def test_long_texts_do_no_harm(text: str) -> None:
    assert len(clock_times_in(text)) + len(rates_in(text)) + len(units_in(text)) <= len(text)
