"""Numbers however they are written, and lengths of time."""

from __future__ import annotations

import pytest

from assay.scoring.offline.numbers import durations_in, in_digits, numbers_in, without_list_markers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("three cats", [3]),
        ("twenty-one", [21]),
        ("twenty one days", [21]),
        ("one hundred and five", [105]),
        ("two thousand", [2000]),
        ("two thousand and twelve", [2012]),
        ("a hundred", [100]),
        ("twice a week", [2]),
        ("a dozen eggs", [12]),
        ("the third and the fourth", [3, 4]),
        ("three or four", [3, 4]),
        ("his second book", [2]),
        ("1,250.5 km", [1250.5]),
        ("10k steps", [10_000]),
        ("1,000.5 K and 3 kg", [1_000_500, 3]),
        ("the 7th", [7]),
        ("PS5", [5]),
        ("三十五岁", [35]),
        ("两只猫", [2]),
        ("一百零五", [105]),
        ("一万二千", [12_000]),
        ("第十二章", [12]),
        ("no number", []),
        ("someone, a tone, the throne", []),
    ],
)
def test_numbers_are_read_in_words_and_digits(text: str, numbers: list[float]) -> None:
    assert numbers_in(in_digits(text)) == numbers


@pytest.mark.parametrize("text", ["9" * 6000, "亿" * 6000, "million " * 500, "hundred " * 500])
def test_endless_numbers_do_no_harm(text: str) -> None:
    """Python refuses to write integers of more than 4,300 digits."""
    assert all(number >= 0 for number in numbers_in(in_digits(text)))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("two weeks", "14 days", True),
        ("1 year", "12 months", True),
        ("三个月", "3 months", True),
        ("four months", "four years", False),
        ("30 minutes", "31 minutes", False),
        ("30 minutes", "half a year", False),
    ],
)
def test_lengths_of_time_are_compared_by_length(one: str, two: str, same: bool) -> None:
    """In one unit exactly, between units nearly."""
    (first,) = durations_in(in_digits(one))
    assert any(first.equals(other) for other in durations_in(in_digits(two))) is same


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("a week", [7]),
        ("It took about an hour.", [1 / 24]),
        ("half a day", [0.5]),
        ("two and a half days", [2.5]),
        ("a day and a half", [1.5]),
        ("a week ago", [7]),
        ("twice a week", []),
        ("three times a day", []),
        ("a day or two", []),
        ("what a year", []),
    ],
)
def test_an_article_counts_as_one(text: str, days: list[float]) -> None:
    """Unless it makes a rate."""
    assert [each.days for each in durations_in(in_digits(text))] == pytest.approx(days)


def test_the_numbers_of_list_items_are_removed() -> None:
    assert numbers_in(without_list_markers("13 books: 1. Emma 2. Ulysses\n3) Molloy")) == [13]
    assert numbers_in(without_list_markers("She is in room 1. He is not.")) == [1]
