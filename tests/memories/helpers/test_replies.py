"""Replies are read leniently, and what is not clear is not guessed."""

from __future__ import annotations

import pytest

from assay.memories.helpers.prompts import parse_calls, parse_choice, parse_lines, parse_rating, parse_text


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("7", 7),
        (" 10\n", 10),
        ("**8**", 8),
        ("Rating: 3.", 3),
        ("7/10", 7),
        ("I would say 7 out of 10", 7),
        ("On a scale of 1 to 10 it is a 4.", 4),
        ("On a scale of 1-10: 10", 10),
        ("An importance of 10", 10),
        ("6.5", 6.5),
        ("9, yes, 9", 9),
        ("", None),
        ("very important", None),
        ("6 or 7", None),
        ("0", None),
        ("11", None),
        ("-3", None),
        ("70%", None),
        ("1.2.3", None),
    ],
)
def test_a_rating_is_the_one_number_from_1_to_10(reply: str, rating: float | None) -> None:
    assert parse_rating(reply) == rating


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("yes", True),
        ("No.", False),
        ("**Yes**, they are enough", True),
        ("TRUE", True),
        ("Older messages are needed, so: no", False),
        ("", None),
        ("maybe", None),
        ("Yes and no", None),
        ("I have no idea", None),
        ("nothing", None),
        ("是", None),
    ],
)
def test_a_choice_is_the_first_or_the_last_word(reply: str, choice: bool | None) -> None:
    assert parse_choice(reply) is choice


def test_lines_lose_their_numbers_and_introductions() -> None:
    """Numbers within a line stay."""
    reply = "Here are two questions:\n\n1. Who is 42?\n2) Why?\n- Where\n• 2023 was good\n\n"
    assert parse_lines(reply) == ["Who is 42?", "Why?", "Where", "2023 was good"]
    assert parse_lines("Insights:\n\n") is None


def test_a_text_is_the_reply_without_white_space_around() -> None:
    assert parse_text("\n said ") == "said"
    assert parse_text(" \n") is None


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ("recall: red car", [("recall", "red car")]),
        ('1. recall("red car")\n- Archive: a boat', [("recall", "red car"), ("archive", "a boat")]),
        ("**recall**: x: y", [("recall", "x: y")]),
        ("recall 北京", [("recall", "北京")]),
        ("none", []),
        ("None.", []),
        ("I need none of it", None),
        ("none\nrecall: x", [("recall", "x")]),
        ("recall:", None),
        ("forget: all", None),
        ("", None),
    ],
)
def test_calls_are_lines_with_a_known_name(reply: str, calls: list[tuple[str, str]] | None) -> None:
    assert parse_calls(reply, ("recall", "archive")) == calls
