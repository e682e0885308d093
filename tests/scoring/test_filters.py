from __future__ import annotations

from typing import Any

import pytest

from assay.core import registry


def apply(name: str, replies: list[Any], **options: Any) -> Any:
    return registry.find("filter", name).build(**options)(replies)


def test_regex_picks_a_match_and_its_first_group_with_text() -> None:
    """All matches are found, one is chosen by group_select; of a match's groups the first non-empty one, stripped."""
    pattern = "(-?[$0-9.,]{2,})|(-?[0-9]+)"
    assert apply("regex", ["a 1 and 22 and 3"], regex_pattern=pattern, group_select=-1) == ["3"]
    assert apply("regex", ["a 1 and 22 and 3"], regex_pattern=pattern) == ["1"]
    assert apply("regex", ["x #### 1,024"]) == ["1,024"]


def test_regex_falls_back_where_nothing_is_found() -> None:
    """No match, no text and empty groups all give the fallback."""
    assert apply("regex", ["none", 5]) == ["[invalid]", "[invalid]"]
    assert apply("regex", ["ab"], regex_pattern="(x?)(y?)ab", fallback="NO") == ["NO"]


def test_a_majority_needs_no_half_and_a_tie_goes_to_the_first() -> None:
    """The most frequent reply wins; among equals the one seen first; an [invalid] may win."""
    assert apply("majority_vote", ["b", "a", "a", "b", "c"]) == ["b"]
    assert apply("majority_vote", ["[invalid]", "3", "[invalid]"]) == ["[invalid]"]


def test_take_first_unpacks_and_take_first_k_does_not() -> None:
    """take_first gives one value, take_first_k a list, and never fewer than k."""
    assert apply("take_first", ["a", "b"]) == "a"
    assert apply("take_first_k", ["a", "b", "c"], k=2) == ["a", "b"]
    with pytest.raises(ValueError, match="wants 4 replies, there are 1"):
        apply("take_first_k", ["a"], k=4)


def test_text_filters_change_every_reply() -> None:
    """Case, white space and tables act on each reply alike; what a table lacks is its default."""
    assert apply("lowercase", ["Ab", "İX"]) == ["ab", "i̇x"]
    assert apply("uppercase", ["aß"]) == ["ASS"]
    assert apply("remove_whitespace", ["  a b\n"]) == ["a b"]
    assert apply("map", ["Paris", "x"], mapping_dict={"Paris": "P"}) == ["P", None]
