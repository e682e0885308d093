"""Answers with citations: what counts as one, and what is dropped and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.core.memory import MemoryItem, SearchHit
from assay.suites.memory.answers import CitedAnswer, parse_cited_answer

TEXTS = ("the cat is called Tom", "a red kite", "rent is 900 euros a month")
FOUND = [SearchHit(MemoryItem(f"m{at}", text)) for at, text in enumerate(TEXTS)]


def cited(citations: Any, *, quotes: bool = False) -> tuple[tuple[int | str, ...], int]:
    """What is kept, and how many are dropped."""
    said = json.dumps({"answer": "Tom", "citations": citations})
    answer = parse_cited_answer(said, FOUND, quotes=quotes)
    assert (answer.answer, answer.loose) == ("Tom", False)
    return answer.cited, answer.dropped


@pytest.mark.parametrize("citation", [2, "2", "[2]", " [ 2 ] ", "[2", "2]", "m1", "a red kite", "  a red kite\n"])
@pytest.mark.parametrize("quotes", [False, True])
def test_one_item_in_many_ways(citation: Any, *, quotes: bool) -> None:
    """By number, in brackets, by id, by its text; alone or in a list."""
    assert cited([citation], quotes=quotes) == ((1,), 0)
    assert cited(citation, quotes=quotes) == ((1,), 0)


@pytest.mark.parametrize("citation", ["(2024-03-04) we met Tom", "[2] (2024-03-04) we met Tom", "we met Tom"])
@pytest.mark.parametrize("quotes", [False, True])
def test_an_item_as_the_prompt_shows_it(citation: str, *, quotes: bool) -> None:
    """With its date and its number, which are no part of its text; another's number is not its line."""
    found = [
        SearchHit(MemoryItem("m0", "hello")),
        SearchHit(MemoryItem("m1", "we met Tom", date="2024-03-04")),
    ]
    for said, kept in ((citation, ((1,), 0)), ("[1] (2024-03-04) we met Tom", ((), 1))):
        reply = json.dumps({"answer": "Tom", "citations": [said]})
        answer = parse_cited_answer(reply, found, quotes=quotes)
        assert (answer.cited, answer.dropped) == kept


@pytest.mark.parametrize(
    "citation",
    [
        0,
        4,
        -1,
        99,
        "0",
        "4",
        "[12]",
        "1234567890123",
        True,
        1.0,
        None,
        [1],
        {"n": 1},
        "",
        "a blue kite",
        "TOM",
    ],
)
@pytest.mark.parametrize("quotes", [False, True])
def test_what_was_not_found_is_dropped_and_counted(citation: Any, *, quotes: bool) -> None:
    """Out of range, of another type, or nobody's text; the good one beside it stays."""
    assert cited([citation, 3], quotes=quotes) == ((2,), 1)


@pytest.mark.parametrize("part", ["cat is called", "900 euros a month", "called Tom"])
def test_a_part_of_a_text_counts_in_a_bundle_only(part: str) -> None:
    """One text has no numbers that a model could know; of single items each is cited whole."""
    assert cited([part], quotes=True) == ((part,), 0)
    assert cited([part], quotes=False) == ((), 1)


def test_a_part_that_stands_in_any_text_is_none() -> None:
    """Eight characters at least; the whole of a short text counts whatever its length."""
    assert cited(["the cat"], quotes=True) == ((), 1)
    assert cited(["the cat "], quotes=True) == ((), 1)
    assert cited(["the cat i"], quotes=True) == (("the cat i",), 0)
    short = [SearchHit(MemoryItem("x", "Tom"))]
    said = json.dumps({"answer": "Tom", "citations": ["Tom"]})
    assert parse_cited_answer(said, short, quotes=True) == CitedAnswer("Tom", (0,), 0)


def test_the_same_item_counts_once() -> None:
    """However it is named; the order is that of the reply."""
    assert cited([3, 1, "[3]", "m2", TEXTS[2], 1]) == ((2, 0), 0)
    assert cited(["called Tom", "called Tom"], quotes=True) == (("called Tom",), 0)


@pytest.mark.parametrize("citations", [[], None])
def test_nothing_may_be_cited(citations: Any) -> None:
    """As where nothing was found."""
    assert cited(citations) == ((), 0)


def test_citations_may_be_left_out() -> None:
    assert parse_cited_answer('{"answer": "Tom"}', FOUND, quotes=False) == CitedAnswer("Tom", ())
    assert parse_cited_answer('{"answer": "Tom", "citations": [1]}', [], quotes=False) == CitedAnswer("Tom", (), 1)


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": " Tom ", "citations": [1]}',
        '```json\n{"answer": "Tom", "citations": [1]}\n```',
        '```\n{"answer": "Tom", "citations": [1]}\n```\nI hope that helps.',
        'Here it is: {"answer": "Tom", "citations": [1]} as asked [2].',
    ],
)
def test_json_is_found_where_it_stands(text: str) -> None:
    """In a fence, or between words."""
    assert parse_cited_answer(text, FOUND, quotes=False) == CitedAnswer("Tom", (0,))


@pytest.mark.parametrize(("given_", "text"), [(900, "900"), (2.5, "2.5"), (0, "0")])
def test_a_number_is_an_answer(given_: float, text: str) -> None:
    """Models forget quotation marks."""
    said = json.dumps({"answer": given_, "citations": [3]})
    assert parse_cited_answer(said, FOUND, quotes=False) == CitedAnswer(text, (2,))


@pytest.mark.parametrize(
    "text",
    [
        " Tom, as said in [1].\n",
        "",
        "[1, 2]",
        '{"citations": [1]}',
        '{"answer": null, "citations": [1]}',
        '{"answer": ["Tom"], "citations": [1]}',
        '{"answer": "Tom", "citations": [1',
        '"Tom"',
    ],
)
def test_another_reply_is_the_answer_as_it_is(text: str) -> None:
    """It cites nothing, and is counted as a reply without JSON."""
    assert parse_cited_answer(text, FOUND, quotes=True) == CitedAnswer(text.strip(), loose=True)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(ANY | st.integers(-1, 5) | st.sampled_from(TEXTS), max_size=8), st.booleans())
def test_whatever_is_cited_is_kept_dropped_or_double(citations: list[Any], quotes: bool) -> None:
    """What is kept is a place among what was found, or a part of a text of it."""
    kept, dropped = cited(citations, quotes=quotes)
    assert len(set(kept)) == len(kept) <= len(citations) - dropped
    for one in kept:
        assert one in range(3) if isinstance(one, int) else any(one in text for text in TEXTS)


@given(st.text() | ANY.map(json.dumps))
def test_no_reply_is_too_strange(text: str) -> None:
    """There is always an answer, and never an error."""
    answer = parse_cited_answer(text, FOUND, quotes=True).answer
    assert answer == answer.strip()
