from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.core import registry
from assay.core.errors import UsageError


def apply(name: str, replies: list[Any], **options: Any) -> Any:
    return registry.find("filter", name).build(**options)(replies)


def choose(replies: list[Any], choices: list[Any], **options: Any) -> Any:
    return registry.find("filter", "multi_choice_regex").build(**options)(replies, {"choices": choices})


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
    with pytest.raises(ValueError, match="needs 4 replies, but there are 1"):
        apply("take_first_k", ["a"], k=4)


def test_text_filters_change_every_reply() -> None:
    """Case, white space and tables act on each reply alike; what a table lacks is its default."""
    assert apply("lowercase", ["Ab", "İX"]) == ["ab", "i̇x"]
    assert apply("uppercase", ["aß"]) == ["ASS"]
    assert apply("remove_whitespace", ["  a b\n"]) == ["a b"]
    assert apply("map", ["Paris", "x"], mapping_dict={"Paris": "P"}) == ["P", None]


def test_a_choice_is_found_by_pattern_then_text_then_letter() -> None:
    """What the pattern finds stays as it is; a text or a letter after a colon becomes its letter."""
    choices = ["Guilty", "Guilty of Romance", "cat"]
    pattern = r"(\([A-C]\))"
    assert choose(["so (B) it is, cat"], choices, regex_pattern=pattern) == ["(B)"]
    assert choose(["I say Guilty of Romance"], choices, regex_pattern=pattern) == ["(B)"]
    assert choose(["my answer: C"], choices, regex_pattern=pattern) == ["(C)"]
    assert choose(["who knows", 5], choices, regex_pattern=pattern) == ["[invalid]", "[invalid]"]
    assert choose(["cat Guilty"], choices, group_select=-1) == ["(A)"]


def test_a_choice_is_found_whatever_is_ignored() -> None:
    """Case, punctuation of any script and patterns are taken from the reply and from the choices."""
    assert choose(["«CAT»!"], ["dog", "cat."]) == ["[invalid]"]
    assert choose(["«C-AT»!"], ["dog", "cat."], ignore_case=True, ignore_punctuation=True) == ["(B)"]
    assert choose(["the cat"], ["dog", "a cat"], regexes_to_ignore=["^a ", "^the "]) == ["(B)"]


def test_more_choices_than_letters_are_no_error() -> None:
    """The harness makes a pattern of what comes after Z, and fails."""
    assert choose(["answer: A"], [f"choice {n}" for n in range(30)]) == ["(A)"]


def test_documents_without_choices_are_named() -> None:
    """The sentence says which column is missing."""
    with pytest.raises(UsageError, match="a column `choices`"):
        registry.find("filter", "multi_choice_regex").build()(["a"], {})


def test_tags_and_spans() -> None:
    """Tags are the second of each pair; entities get one label each, and `none` is no entity."""
    assert apply("regex_pos", ["[('I', 'PRON'), ('run', 'VERB')]", "no tags"]) == [
        ["PRON", "VERB"],
        ["invalid"],
    ]
    assert apply("regex_pos", [[("a", "DET")]]) == [["DET"]]
    assert apply("format_span", ["Person: Ada, none $$ PLACES : Rome\ndate: May$$"]) == [
        "per: ada $ loc: rome $ date: may"
    ]


def test_a_function_of_the_user_gets_lists_of_one() -> None:
    """The harness's signature: replies and documents in lists; any iterable may come back."""

    def filter_fn(resps: list[list[str]], docs: list[dict[str, str]]) -> Iterator[list[str]]:
        return ([reply + doc["x"] for reply in one] for one, doc in zip(resps, docs, strict=True))

    built = registry.find("filter", "custom").build(filter_fn=filter_fn)
    assert built(["a", "b"], {"x": "!"}) == ["a!", "b!"]
    with pytest.raises(UsageError, match="name a Python function"):
        registry.find("filter", "custom").build(filter_fn="utils.f")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("regex", {"regex_pattern": "(a"}, r"'\(a' is not a regular expression"),
        ("multi_choice_regex", {"regexes_to_ignore": ["ok", "[z"]}, r"'\[z' is not a regular expression"),
        ("regex_pos", {"regex_pattern": "*"}, r"'\*' is not a regular expression"),
        ("map", {"mapping_dict": ["a"]}, "expected a mapping"),
        ("decontaminate", {"path": "x"}, "Remove this filter"),
    ],
)
def test_wrong_options_are_known_before_the_first_request(name: str, options: dict[str, Any], message: str) -> None:
    """Building says what is wrong, with the pattern."""
    with pytest.raises(UsageError, match=message):
        registry.find("filter", name).build(**options)
