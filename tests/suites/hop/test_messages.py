"""The prompts of operators: every place that they have is filled."""

from __future__ import annotations

import re

import pytest

from assay.suites.hop.messages import RejectedAnswer, build_messages, task_text

VALUES = {
    "get": ("format",),
    "judge": (),
    "tool_use": ("tools",),
    "reverse": ("result",),
    "cross": ("result",),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_place_is_left_and_none_is_made_by_what_is_filled_in(name: str) -> None:
    """A task that holds `{context}` is shown as it is."""
    values = {place: f"<{place}>" for place in VALUES[name]}
    found = build_messages(name, task_text("{context}", "known"), values, [RejectedAnswer("answer", "reason")])
    text = "".join(message["content"] for message in found)
    assert re.findall(r"\{\w+\}", text) == ["{context}"]
    assert all(value in text for value in ("known", *values.values()))
