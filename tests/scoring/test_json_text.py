"""JSON that a model wrote as text."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.scoring.json_text import read_json, read_reply

GOOD = {"reason": 'it says "{" and }', "label": "Correct"}
TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        f" \n{TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\n",
        f"Sure, here it is:\n```json\n{TEXT}\n```\nI hope that helps.",
        f'It is "fine, I think: {TEXT}',
        f"{TEXT} Done.",
        f"{TEXT}\n{TEXT}",
        TEXT[:-1] + ", \n}",
        f"By {{reason}} first. {TEXT}",
    ],
)
def test_one_object_is_found_whatever_stands_around_it(reply: str) -> None:
    """Braces and quotes inside its texts do not end it, nor do commas that belong to a text."""
    assert read_reply(reply) == GOOD


def test_line_breaks_in_texts_and_trailing_commas_are_forgiven() -> None:
    """Only commas outside of texts go."""
    reply = '{"reason": "a,}\nb,]", "labels": {"1": "covered",\n},\n}'
    assert read_reply(reply) == {"reason": "a,}\nb,]", "labels": {"1": "covered"}}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("It is correct.", "has no JSON object"),
        ('[{"label": "Correct"}]', "is not a JSON object"),
        ('"Correct"', "is not a JSON object"),
        ('{"label": "Correct"', "ends in the middle of its JSON"),
        ('{"label": "Corr', "ends in the middle of its JSON"),
        ('{"reason": "x", "labels": {"1": "covered"}', "ends in the middle of its JSON"),
        ('Well: {"reason": {"label": "Correct"}, ', "ends in the middle of its JSON"),
        ('{"label": "Correct"} or {"label": "Omission"}', "has 2 JSON objects that differ"),
        ('{"label": "Correct", "label": "Omission"}', "'label' appears twice"),
        ('So: {"label": "Correct", "label": "Omission",}', "'label' appears twice"),
        ("{'label': 'Correct'}", "cannot be read"),
        ('{"label": NaN}', "NaN is not JSON"),
        ('{"a":' * 100_000, "ends in the middle of its JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_not_one_whole_object_is_refused(reply: str, why: str) -> None:
    """An incomplete object is not repaired, and no choice is made among several objects."""
    with pytest.raises(ValueError, match=why):
        read_reply(reply)


@pytest.mark.parametrize("quote", ['{"label": "Correct"}', '{"reason": "a\\nb", "label": "Correct"}'])
def test_an_object_that_was_in_the_prompt_is_a_quote(quote: str) -> None:
    """Raw or as a line of a list; the judge's own object counts beside it, and a reply that is only an object."""
    for asked in (f"the response: {quote}", f"1: {json.dumps('x ' + quote)}"):
        with pytest.raises(ValueError, match="has no JSON object"):
            read_reply(f"It wants me to say {quote}, which I ignore.", asked)
        assert read_reply(f'It says {quote}. {{"label": "Omission"}}', asked) == {"label": "Omission"}
        assert read_reply(quote, asked) == json.loads(quote)


VALUES = st.text(max_size=9) | st.integers() | st.lists(st.text(max_size=5), max_size=3)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.integers(1, 9))
def test_every_object_is_read_and_no_cut_one(value: dict[str, Any], cut: int) -> None:
    """However it is written; without its end it never is another object."""
    text = json.dumps(value, ensure_ascii=False)
    assert read_reply(f"So: {text} That is all.") == value
    with pytest.raises(ValueError, match="the reply"):
        read_reply(f"So: {text[: max(1, len(text) - cut)]}")


@pytest.mark.parametrize("reply", [f"Sure: {TEXT}", f"{TEXT} Done.", '{"a": 1,}', '{"a": "x\ny"}'])
def test_read_json_is_strict(reply: str) -> None:
    """`read_json`, which rubrics and expectations use, accepts nothing around the value."""
    with pytest.raises(json.JSONDecodeError):
        read_json(reply)


def test_a_reply_full_of_objects_or_keys_is_refused_in_linear_time() -> None:
    """Comparing each with all others would take minutes."""
    started = time.process_time()
    with pytest.raises(ValueError, match="more than 100 JSON objects that differ"):
        read_reply("".join(f'{{"a":{number}}}' for number in range(100_000)))
    keys = ",".join(f'"{number}":1' for number in range(100_000))
    with pytest.raises(ValueError, match="the key '99999' appears twice"):
        read_json(f'{{{keys},"99999":1}}')
    assert time.process_time() - started < 30
