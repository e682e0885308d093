"""What the offline judge says of memory points and evidence, on invented texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.scoring import offline
from assay.scoring.offline.index import TextIndex, index_of, pieces_of
from assay.scoring.questions import COVERED, MISSED, EvidenceQuestion, RecallQuestion, Verdict

TEXTS = (
    "Ana: I moved to Lisbon in March 2022, right after the exams.",
    "Ben: How nice. I adopted two cats, Miso and Bean.",
    "Ana: It rained all day, so we stayed in and watched a film.",
    "Ben: My sister is a nurse at the harbour hospital.",
)


def kept(points: tuple[str, ...], texts: tuple[str, ...] = TEXTS) -> Verdict:
    return offline.verdict(RecallQuestion(points, (False,) * len(points), texts))


def test_points_are_covered_by_texts_that_say_them() -> None:
    """In other words and forms too; the reason names what is missed by its place."""
    verdict = kept(
        (
            "Ana moved to Lisbon in March 2022.",
            "Ben has two cats.",
            "Ana plays the cello.",
            "Ben's sister is a nurse.",
        )
    )
    assert verdict.labels == (COVERED, COVERED, MISSED, COVERED)
    assert verdict.reason.startswith("3 of 4 covered; missed: 3 (")


def test_evidence_is_covered_in_the_same_way() -> None:
    points = ("Ana moved to Lisbon in March 2022.", "Ana plays the cello.")
    assert offline.verdict(EvidenceQuestion(points, TEXTS)) == kept(points)


@pytest.mark.parametrize(
    ("point", "against"),
    [
        ("Ben adopted three cats.", "it says 2, not 3"),
        ("Ana moved to Lisbon in May 2022.", "it says March 2022, not May 2022"),
        ("Ana moved to Porto in March 2022.", "it says Lisbon, not Porto"),
    ],
)
def test_a_text_that_says_otherwise_does_not_cover(point: str, against: str) -> None:
    verdict = kept((point,))
    assert verdict.labels == (MISSED,)
    assert against in verdict.reason


def test_the_opposite_does_not_cover() -> None:
    assert kept(("Ana drinks coffee.",), ("Ana drinks coffee.", "x")).labels == (COVERED,)
    assert kept(("Ana drinks coffee.",), ("Ana no longer drinks coffee.", "x")).labels == (MISSED,)


def test_a_time_stamp_is_no_other_date() -> None:
    point = "Ana moved to Lisbon in March 2022."
    for stamp in ("[8 May 2023] ", "(1:56 pm on 8 May, 2023) ", "8 May 2023, 13:56: "):
        assert kept((point,), (f"{stamp}Ana moved to Lisbon in March 2022", "x")).labels == (COVERED,)


def test_chinese_points() -> None:
    texts = ("李明：我家里养了三只猫。", "王芳：我上周搬到上海了。", "今天天气很好。")
    verdict = kept(("李明养了三只猫", "王芳搬到了上海", "张伟喜欢打篮球", "李明养了四只猫"), texts)
    assert verdict.labels == (COVERED, COVERED, MISSED, MISSED)


@pytest.mark.parametrize("texts", [(), ("",), ("", " \n")])
def test_without_texts_nothing_is_covered(texts: tuple[str, ...]) -> None:
    assert kept(("Ana plays the cello.", ""), texts).labels == (MISSED, MISSED)


def test_a_point_is_found_in_a_very_long_text() -> None:
    """A long text is read in pieces, so that what stands far apart is not taken together."""
    filler = "Nothing much happened on that quiet and rainy day. " * 400
    whole = f"{filler}Ana moved to Lisbon in March 2022. {filler}"
    apart = f"Ana came. {filler}Somebody moved. {filler}Lisbon is big. {filler}It was in March 2022. {filler}"
    point = ("Ana moved to Lisbon in March 2022.",)
    assert kept(point, (whole,)).labels == (COVERED,)
    assert kept(point, (apart,)).sure < kept(point, (whole,)).sure
    assert len(pieces_of(whole)) > 50
    assert "".join(piece.text for piece in pieces_of(whole)) == whole


def test_more_texts_find_more_by_chance() -> None:
    """The same match counts less among a thousand texts than among ten."""
    point, near = "Ana keeps bees behind the old mill.", "Ana walked behind the old house."
    few = kept((point,), (near, *(f"word{n}" for n in range(9)))).sure[0]
    many = kept((point,), (near, *(f"word{n}" for n in range(999)))).sure[0]
    assert many < few


def test_texts_are_indexed_once() -> None:
    """For all points and judgements of a session."""
    texts = tuple(f"text {n}" for n in range(20))
    before = index_of.cache_info().misses
    for _ in range(3):
        kept(("a point", "another"), (*texts,))
    assert index_of.cache_info().misses == before + 1


WORDS = st.lists(
    st.sampled_from(["Ana", "moved", "three", "3", "May 2022", "not", "猫", "三", "Lisbon", "lisbon", "a", ". "]),
    max_size=8,
).map(" ".join)


@given(st.lists(WORDS | st.text(max_size=30), max_size=4), st.lists(WORDS | st.text(max_size=30), max_size=5))
def test_any_texts_get_labels(points: list[str], texts: list[str]) -> None:
    """Never an error; as many labels and measures as points."""
    verdict = kept(tuple(points), tuple(texts))
    assert len(verdict.labels) == len(verdict.sure) == len(points)
    assert all(0 <= sure <= 1 for sure in verdict.sure)


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_a_text_covers_itself(texts: list[str]) -> None:
    """A point that stands there word by word is covered, unless it has no word."""
    index = TextIndex(tuple(texts))
    for at, text in enumerate(texts):
        if index.pieces[at].words:
            assert kept((text,), tuple(texts)).labels == (COVERED,)


def test_few_and_many_texts_have_the_same_shares() -> None:
    """Beyond 200 pieces an index looks words up instead of reading all pieces."""
    words = ("motivation", "motivating", "motive", "lamp", "lamps", "harbour", "harbours", "ink", "7")
    texts = tuple(f"{one} {other} {number % 9}" for number in range(4) for one in words for other in words)
    point = "Motivation, harbour, lamp, pen and 7"
    index = TextIndex(texts)
    assert len(index.pieces) > 200
    for word in ("motiv", "motivat", "harbour", "lamp", "ink", "7", "pen"):
        assert index._look_up(word) == index._read_all(word)
    assert any(index.shares(point))
