"""What is made of a reply."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from assay.suites.pipeline.steps.prompt_step import parser
from assay.suites.pipeline.steps.runner import StepError

FENCE = "```"
parse_json = parser("json")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1, 2]\n", [1, 2]),
        ("true", True),
        (f'{FENCE}json\n{{"a": 1}}\n{FENCE}', {"a": 1}),
        (f"Here:\n{FENCE}\n[1]\n{FENCE}\nDone.", [1]),
        (f'{FENCE}python\nx = 1\n{FENCE}\nand {FENCE}json\n{{"a": 2}}\n{FENCE}', {"a": 2}),
        ('The answer is {"a": {"b": [1]}} as asked.', {"a": {"b": [1]}}),
        ('As in [note]: {"a": 1}', {"a": 1}),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ('{"a": 1}}', {"a": 1}),
        ('{broken} but {"a": "}"}', {"a": "}"}),
    ],
)
def test_json_is_found_in_what_models_write(reply: str, value: Any) -> None:
    """All of it, else a code fence, else the first object or list in the prose."""
    assert parse_json(reply) == value


@pytest.mark.parametrize(
    "reply",
    ["", "yes", '{"a": }', '{"a": 1', "[" * 100_000, '{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud800"}'],
)
def test_what_is_no_json_fails_the_step(reply: str) -> None:
    """So does what a journal could not hold: NaN, infinity, half a surrogate, a thousand brackets."""
    with pytest.raises(StepError) as failed:
        parse_json(reply)
    assert failed.value.kind == "bad_output"
    assert len(str(failed.value)) < 300


@given(st.text(alphabet='{}[]",:1a\\ \n`NaN'))
def test_every_reply_is_json_or_a_failure(reply: str) -> None:
    """And what is JSON can be written down again."""
    try:
        value = parse_json(reply)
    except StepError:
        return
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("5", 5),
        ("The answer is 5.", 5),
        ("1,234,567", 1234567),
        ("about 1,234.50 in all", 1234.5),
        ("-3", -3),
        ("+3", 3),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("85%", 85),
        ("between 1-5", 5),
        ("first 3, then 7", 7),
        ("on 2024-01-05", 5),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_a_number_is_the_last_in_the_text(reply: str, value: float) -> None:
    """Whole numbers stay whole, a full stop is no decimal point, a hyphen between digits no minus."""
    found = parser("number")(reply)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("reply", ["none", "", "1e999", "½"])
def test_what_is_no_number_fails_the_step(reply: str) -> None:
    """Infinity is no number either."""
    with pytest.raises(StepError):
        parser("number")(reply)


@pytest.mark.parametrize(
    ("settings", "reply", "value"),
    [
        ({"pattern": r"\d+"}, "a 12 b", "12"),
        ({"pattern": r"score: (\d+)"}, "score: 7", "7"),
        ({"pattern": r"(\d+)/(\d+)", "group": 2}, "7/10", "10"),
        ({"pattern": r"(\d+)/(\d+)", "group": 0}, "7/10", "7/10"),
        ({"pattern": r"(?P<got>\d+)/(?P<of>\d+)"}, "7/10", {"got": "7", "of": "10"}),
        ({"pattern": r"(?P<got>\d+)/(?P<of>\d+)", "group": "of"}, "7/10", "10"),
        ({"pattern": r"a.b"}, "a\nb", "a\nb"),
        ({"pattern": r"a(b)?"}, "a", None),
    ],
)
def test_a_pattern_gives_its_group(settings: dict[str, Any], reply: str, value: Any) -> None:
    """The group that is asked for, else all named ones, else the first, else the whole match."""
    assert parser({"type": "regex", **settings})(reply) == value


def test_a_pattern_that_does_not_match_fails_the_step() -> None:
    """And both stand in the message."""
    with pytest.raises(StepError, match=r"the pattern 'x\+' does not match: 'abc'"):
        parser({"type": "regex", "pattern": "x+"})("abc")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("xml", "there is no parser 'xml'; known: text, json, regex, number, list"),
        ("regex", "needs a `pattern`"),
        ({"type": "regex", "pattern": "("}, "is not a regular expression"),
        ({"type": "regex", "pattern": "a", "group": 1}, "no group 1"),
        ({"type": "regex", "pattern": "(a)", "group": "x"}, "no group 'x'"),
        ({"type": "regex", "pattern": "(a)", "group": -1}, "no group -1"),
    ],
)
def test_a_wrong_parser_is_refused_before_anything_runs(told: Any, why: str) -> None:
    """A group that is not there would fail at every reply."""
    with pytest.raises(ValueError, match=r".") as refused:
        parser(told)
    assert why in str(refused.value)


@pytest.mark.parametrize("told", [None, "text", "none", "str", {"type": "text"}, {}])
def test_a_text_is_a_reply_without_space_around_it(told: Any) -> None:
    """This is what happens where nothing is said."""
    assert parser(told)(" a b\n") == "a b"


def test_a_list_is_what_stands_between_commas() -> None:
    """Empty pieces do not count."""
    assert parser("list")(" a, b c ,, d,\n") == ["a", "b c", "d"]
