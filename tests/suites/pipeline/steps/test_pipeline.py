"""Where values come from: paths into what a case has so far."""

from __future__ import annotations

from typing import Any

import pytest

from assay.suites.pipeline.steps.pipeline import ValuePath
from assay.suites.pipeline.steps.runner import StepError

VALUES: dict[str, Any] = {
    "text": "hello",
    "cleaned": {"items": [{"score": 1}, {"score": 2}], "0": "zero", "none": None, "flag": True},
    "rows": [[1, 2], [3, 4]],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("text", "hello"),
        ("cleaned.items", [{"score": 1}, {"score": 2}]),
        ("cleaned.items[1].score", 2),
        ("cleaned.items[-2].score", 1),
        ("cleaned.items.1.score", 2),
        ("cleaned.0", "zero"),
        ("cleaned.none", None),
        ("rows[1][0]", 3),
        ("rows[-1]", [3, 4]),
    ],
)
def test_a_path_finds(path: str, value: Any) -> None:
    """Dots go into objects, brackets into lists, from either end."""
    assert ValuePath(path).find(VALUES) == value


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("other", "there is no 'other': the test has no input of that name"),
        ("cleaned.score", "cleaned has no 'score'; it has: items, 0, none, flag"),
        ("cleaned.items[2].score", "cleaned.items is a list of 2; it has no 2"),
        ("cleaned.items[-3]", "cleaned.items is a list of 2; it has no -3"),
        ("rows.first", "rows is a list of 2; it has no 'first'"),
        ("cleaned.items[0].score.x", "cleaned.items[0].score is a number, so it has no 'x'"),
        ("cleaned.none.x", "cleaned.none is null, so it has no 'x'"),
        ("cleaned.flag.x", "cleaned.flag is true or false, so it has no 'x'"),
        (
            "text.sentiment",
            "text is a text, so it has no 'sentiment'; use `output_parser: json` to turn a reply",
        ),
        ("cleaned[0]", "cleaned has no 0; it has: items, 0"),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_led(path: str, why: str) -> None:
    """The message names what there is instead."""
    with pytest.raises(StepError) as failed:
        ValuePath(path).find(VALUES)
    assert str(failed.value).startswith(why)


@pytest.mark.parametrize("path", ["", ".a", "[0]", "a..b", "a.", "a[", "a[x]", "a[0", "a]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """Before anything runs, since it stands in the file."""
    with pytest.raises(ValueError, match=r"is not a path|an empty source"):
        ValuePath(path)
