"""Answers with the majority of three votes, and figures about judges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

DEVELOPED_ON, HELD_OUT = range(5), range(5, 10)
"""Conversations. Every rule, weight and threshold was chosen on the first half."""
NAMES = {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop"}


class Labelled(NamedTuple):
    """An answer and whether most votes call it correct."""

    conversation: int
    category: str
    question: str
    reference: str
    response: str
    correct: bool


def labelled(data: dict[str, Any]) -> Iterator[Labelled]:
    """In the file's order."""
    for row in (row for rows in data["detailed_results"].values() for row in rows):
        found = re.fullmatch(r"locomo_(\d+)_qa\d+", row["question_id"])
        assert found, row["question_id"]
        yield Labelled(
            int(found[1]),
            row["category"],
            row["question"],
            str(row["golden_answer"]),
            row["generated_answer"],
            sum(row["llm_judgments"].values()) >= 2,
        )


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that a positive one is above a negative one; equal ones count half."""
    ranked = sorted([(value, 1) for value in positive] + [(value, 0) for value in negative])
    total, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        total += sum(label for _, label in ranked[at:end]) * (at + end + 1) / 2
        at = end
    count = len(positive)
    return (total - count * (count + 1) / 2) / (count * len(negative))
