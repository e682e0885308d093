"""Which metrics an answer gets, and which items count as retrieved evidence."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from assay.core.protocols import Context, ScorerInput
from assay.core.spec import RunSpec
from assay.core.types import Case, End, Record
from assay.suites.memory.test.conversation import ConversationQuestion, MessagePlace
from assay.suites.memory.test.options import MemoryTestOptions
from assay.suites.memory.test.scorers import FIRST_PART, LIST_PARTS, ConversationGold, WordScorer
from assay.suites.memory.test.suite import MemoryTestSuite

from suites.memory.test.files import EXAMPLES

KNOWN = {f"D1:{number}": MessagePlace(number, "session_1") for number in (1, 2, 3)}
HEADLINES = {"judged", "f1", "exact_match", "evidence_recall", "abstention"}


def scored(
    question: ConversationQuestion, answer: str = "", hits: Any = (), *, answers: bool = True
) -> dict[str, float | None]:
    """Return the scores of one answer by metric, without those of `retrieval.py`."""
    gold = ConversationGold([question], KNOWN, {1: LIST_PARTS, 3: FIRST_PART}, "conv", [3])
    data = {"test": 1, "question": 1, "answer": answer, "hits": list(hits)}
    end = End(0, "k", "s", "m", "ask", 1, "ok", [])
    given = ScorerInput(
        Case(0, "k", "s", "m", "l", None, gold), end, [Record(0, "k", "s", "m", 1, "answer", data=data)]
    )
    scores = asyncio.run(WordScorer("1", answers=answers, top_k=10).score(given, cast("Context", None)))
    return {score.metric: score.value for score in scores if score.metric in HEADLINES}


def asked(category: Any = 4, **more: Any) -> ConversationQuestion:
    """A question about two messages."""
    return ConversationQuestion.of("?", ["D1:1", "D1:2"], {"category": category}, **more)


@pytest.mark.parametrize(
    ("hits", "share"),
    [
        ([["a", "D1:1"], ["b", "D1:2"]], 1.0),
        ([["a", "D1:1", "D1:2"]], 1.0),
        ([["a", "D1:1", "D1:2", "D1:3"], ["b", "D1:2"]], 0.5),
        ([["D1:1"]], 0.0),
        ([], 0.0),
    ],
)
def test_an_item_of_more_than_a_packet_counts_for_no_message(hits: Any, share: float) -> None:
    """A summary of everything would always contain the evidence. Item ids are not message ids."""
    assert scored(asked(), hits=hits, answers=False) == {"evidence_recall": share}


def test_categories_are_compared_as_locomo_does() -> None:
    """Category 1 part by part, category 3 up to the semicolon, the others whole."""
    answer = "a red kite, blue boat"
    assert scored(asked(1, reference="blue boat, red kite"), answer)["f1"] == 1.0
    assert scored(asked(1, reference="blue boat"), "red kite, blue boat")["f1"] == 1.0
    assert scored(asked(4, reference="blue boat"), "red kite, blue boat")["f1"] == pytest.approx(2 / 3)
    assert scored(asked(3, reference="yes; since she said so"), "Yes")["exact_match"] == 1.0
    assert scored(asked(4, reference="yes; since she said so"), "Yes")["exact_match"] == 0.0


def test_abstention_is_scored_apart() -> None:
    """Even if the data has an answer. A question without a reference has no F1."""
    wanted = {"evidence_recall": 0.0, "abstention": 1.0}
    assert scored(asked(5, reference="No", abstention=True), "It is not mentioned.") == wanted
    assert scored(asked(5, abstention=True), "a boat") == wanted | {"abstention": 0.0}
    assert scored(asked(4), "a boat") == {"evidence_recall": 0.0}


@pytest.mark.parametrize(
    ("protocol", "own_prompt", "by_meaning"),
    [
        (None, False, False),
        (None, True, True),
        ("locomo", False, False),
        ("locomo", True, False),
        ("longmemeval", False, True),
    ],
)
def test_a_prompt_of_ones_own_may_abstain_in_any_words(
    tmp_path: Path, protocol: Literal["locomo", "longmemeval"] | None, own_prompt: bool, by_meaning: bool
) -> None:
    """The built-in prompt asks for a phrase of LoCoMo's published rule, and the protocol locomo keeps that rule."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("{memories}\n{question}")
    options = MemoryTestOptions(
        data=str(EXAMPLES / "plain.json"),
        dataset="plain",
        memory=["none"],
        protocol=protocol,
        answer_prompt=str(prompt) if own_prompt else "",
    )
    suite = MemoryTestSuite(RunSpec(suite="memory-test", model="openai/x", options=options))
    scorer = suite.scorers[0]
    assert isinstance(scorer, WordScorer)
    assert scorer.abstains("It is not mentioned.")
    assert scorer.abstains("There is no mention of a hamster.") is by_meaning


def test_a_reference_of_zero_counts_as_a_reference() -> None:
    assert scored(asked(4, reference=0), "0")["f1"] == 1.0
