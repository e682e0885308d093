"""References that are more than one answer."""

from __future__ import annotations

import pytest

from assay.scoring.offline.references import alternatives_in, is_rubric, is_unknown


@pytest.mark.parametrize(
    ("reference", "answers"),
    [
        ("17 days. 18 days (including the last day) is also acceptable.", ["17 days.", "18 days"]),
        (
            "A week. Answers ranging from 7 days to 9 days are also acceptable.",
            ["A week.", "7 days", "8 days", "9 days"],
        ),
        ("Oslo. Also acceptable: Norway.", ["Oslo.", "Norway"]),
        ("Oslo; the capital of Norway would be acceptable, too", ["Oslo;", "the capital of Norway"]),
        ("Oslo. Norway is also a right answer.", ["Oslo.", "Norway"]),
        ("Oslo", ["Oslo"]),
        ("He accepted the offer. She is also right.", ["He accepted the offer. She is also right."]),
        ("She also plays chess and accepts draws.", ["She also plays chess and accepts draws."]),
    ],
)
def test_alternatives(reference: str, answers: list[str]) -> None:
    """The reference itself is always one of them."""
    assert alternatives_in(reference) == list(dict.fromkeys([*answers, reference]))


@pytest.mark.parametrize(
    ("reference", "rubric"),
    [
        ("The user would prefer responses that mention her garden.", True),
        ("Given her past, the user would prefer cocktail suggestions that are sweet.", True),
        ("A good answer should mention the garden.", True),
        ("The user would prefer tea.", False),
        ("Ana would appreciate advice.", False),
        ("The answer is 7.", False),
        ("The answer should be 7.", False),
    ],
)
def test_rubrics(reference: str, rubric: bool) -> None:
    assert is_rubric(reference) is rubric


@pytest.mark.parametrize(
    ("reference", "unknown"),
    [
        ("unknown", True),
        ("0. You did not mention any museum.", True),
        (
            "You did not mention this. You spoke of a cat and of two dogs that live with your sister in Rome.",
            True,
        ),
        ("An apple cake. The recipe is not mentioned.", False),
        (
            "She got a book from her aunt for her birthday in May, but the title of the book is not mentioned",
            False,
        ),
        ("No, she did not go.", False),
    ],
)
def test_unknown_references(reference: str, unknown: bool) -> None:
    assert is_unknown(reference) is unknown
