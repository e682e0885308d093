"""CorrectnessQuestion memories, changed points and points that no memory should keep, on invented texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from assay.scoring import offline
from assay.scoring.offline import memories
from assay.scoring.offline.index import TextIndex
from assay.scoring.offline.words import words_of
from assay.scoring.questions import (
    BOTH,
    FABRICATED,
    IRRELEVANT,
    MEMORIZED,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
    CorrectnessQuestion,
    InterferenceQuestion,
    UpdateQuestion,
    Verdict,
)

POINTS = (
    "Ana moved to Lisbon in March 2022.",
    "Ana has two cats.",
    "Ana works as a nurse at the harbour hospital.",
)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Ana moved to Lisbon in March 2022.", TRUE),
        ("Ana works at the harbour hospital; she is a nurse.", TRUE),
        ("She has two cats", TRUE),
        ("Ana once sang in a choir.", TRUE),
        ("Ana moved to Porto in March 2022.", FABRICATED),
        ("Ana moved to Lisbon in May 2022.", FABRICATED),
        ("Ana has three cats.", FABRICATED),
        ("Ben works as a nurse at the harbour hospital.", FABRICATED),
        ("The soup was too salty today.", IRRELEVANT),
        ("", IRRELEVANT),
    ],
)
def test_a_memory_is_true_made_up_or_irrelevant(text: str, label: str) -> None:
    """By the points of its session and of earlier ones."""
    verdict = offline.verdict(CorrectnessQuestion(POINTS, ("Ana sang in a choir once.",), (text, "something else")))
    assert verdict.labels == (label, IRRELEVANT)


def test_each_memory_gets_its_own_label_and_reason() -> None:
    texts = ("Ana has two cats.", "Ana has four cats.", "Soup for lunch.")
    verdict = offline.verdict(CorrectnessQuestion(POINTS, (), texts))
    assert verdict.labels == (TRUE, FABRICATED, IRRELEVANT)
    assert verdict.reason == "1 correct, 1 hallucination, 1 irrelevant; 2: it says 4, not 2"
    assert verdict.sure[0] > max(verdict.sure[1:])


def test_what_a_changed_point_says_now_is_true() -> None:
    """A memory of the new state contradicts the old one, and is right."""
    verdict = offline.verdict(
        CorrectnessQuestion(("Ana has three cats.",), ("Ana has two cats.",), ("Ana has three cats.",))
    )
    assert verdict.labels == (TRUE,)


def test_without_points_nothing_matters() -> None:
    assert offline.verdict(CorrectnessQuestion((), (), ("Ana has two cats.",))).labels == (IRRELEVANT,)


def changed(new: str, old: str, *texts: str) -> Verdict:
    return offline.verdict(UpdateQuestion(new, (old,), texts))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ana lives in Oslo.", "Ana lives in Rome."),
        ("The appointment is on 12 June at 9.", "The appointment is on 5 June at 9."),
        ("Ana has three cats.", "Ana has two cats."),
        ("安娜住在上海", "安娜住在北京"),
    ],
)
def test_one_word_tells_new_from_old(new: str, old: str) -> None:
    """Whatever else the two have in common."""
    assert changed(new, old, new).labels == (UPDATED,)
    assert changed(new, old, old).labels == (OUTDATED,)
    assert changed(new, old, old, new).labels == (BOTH,)
    assert changed(new, old, "Bob paints boats").labels == (OUTDATED,)
    assert changed(new, old).labels == (OUTDATED,)
    sure = [changed(new, old, *texts).sure[0] for texts in ((new,), (old, new), (old,))]
    assert sure == sorted(sure, reverse=True)
    assert sure[2] == 0


def test_a_text_that_tells_of_the_change_holds_the_new() -> None:
    verdict = changed("Ana lives in Oslo.", "Ana lives in Rome.", "Ana lives in Oslo, no longer in Rome.")
    assert verdict.labels == (UPDATED,)
    assert verdict.reason.startswith("the new state is covered (")


def test_a_point_that_grew_and_one_that_shrank() -> None:
    """What only the longer one has decides."""
    short, grown = "Ana speaks Dutch.", "Ana speaks Dutch and Finnish."
    assert changed(grown, short, short).labels == (OUTDATED,)
    assert changed(grown, short, grown).labels == (UPDATED,)
    assert changed(short, grown, short).labels == (UPDATED,)
    assert changed(short, grown, grown).labels == (OUTDATED,)


def test_the_side_that_a_text_has_more_of_wins() -> None:
    """A word of the new one in a text of the old one does not make it new."""
    new, old = "Ana drinks green tea.", "Ana drinks coffee."
    assert changed(new, old, "Ana drinks coffee from a green cup.").labels == (OUTDATED,)


def test_every_old_one_counts() -> None:
    matter = UpdateQuestion("Ana lives in Oslo.", ("Ana lives in Rome.", "Ana lives in Bonn."), ("Ana lives in Oslo.",))
    assert offline.verdict(matter).labels == (UPDATED,)
    both = UpdateQuestion(matter.new, matter.old, ("Ana lives in Oslo.", "Ana lives in Bonn."))
    assert offline.verdict(both).labels == (BOTH,)
    assert offline.verdict(UpdateQuestion(matter.new, (), matter.texts)).labels == (UPDATED,)


def test_interference_is_memorized_where_it_is_covered() -> None:
    content = "A neighbour of Ana once owned a parrot."
    kept = offline.verdict(InterferenceQuestion(content, ("Ana's neighbour owned a parrot.", "x")))
    clean = offline.verdict(InterferenceQuestion(content, ("Ana has two cats.", "x")))
    assert (kept.labels, clean.labels) == ((MEMORIZED,), (REJECTED,))
    assert kept.sure < clean.sure
    assert offline.verdict(InterferenceQuestion(content, ())).labels == (REJECTED,)


WORDS = st.lists(
    st.sampled_from(["Ana", "Ben", "moved", "three", "3", "May 2022", "not", "猫", "三", "Lisbon", "a", ". "]),
    max_size=7,
).map(" ".join)
ANY = WORDS | st.text(max_size=20)
SOME = st.lists(ANY, max_size=4).map(tuple)


@given(SOME, SOME, SOME, ANY)
def test_any_texts_get_labels(one: tuple[str, ...], two: tuple[str, ...], texts: tuple[str, ...], point: str) -> None:
    """Never an error; each thing has a label of its kind and a measure from 0 to 1."""
    for matter in (
        CorrectnessQuestion(one, two, texts),
        UpdateQuestion(point, two, texts),
        InterferenceQuestion(point, texts),
    ):
        verdict = offline.verdict(matter)
        assert len(verdict.labels) == len(verdict.sure) == matter.count
        assert set(verdict.labels) <= set(matter.labels)
        assert all(0 <= sure <= 1 for sure in verdict.sure)


def test_the_quick_search_for_a_time_stamp_finds_what_its_pattern_finds() -> None:
    """Brackets, colons, bars and dashes at any distance, with spaces and digits in between."""
    draw = random.Random(7)
    pieces = [
        "[",
        "]",
        "(",
        ")",
        ": ",
        ":",
        " - ",
        " | ",
        "\n",
        " ",
        "      ",
        "2023-05-07",
        "7 pm",
        "5",
        "Ann",
        "word",
        "x" * 39,
    ]
    for _ in range(3000):
        text = "".join(draw.choices(pieces, k=draw.randint(0, 25)))
        assert memories.without_time_stamp(text) == memories.TIME_STAMP.sub("", text, count=1), repr(text)


def test_many_texts_have_the_same_shares_as_few() -> None:
    """Shares of many texts are added up by numpy. Here both ways get the same words."""
    draw = random.Random(8)
    words = ("Ada", "moved", "to", "Oslo", "Rome", "with", "architecture", "architect", "3", "in", "May")
    texts = tuple(" ".join(draw.choices(words, k=6)) for _ in range(150))
    few, point = TextIndex(texts), "Ada moved to Oslo with an architect in May"
    matches = [few.match(word) for word in dict.fromkeys(words_of(point))]
    weights = [match.weight for match in matches]
    weights[0] *= 0.5  # the subject of the point
    assert few.shares_of_many(weights, matches, sum(weights)) == few.shares(point)
