"""Scores the answers of a conversation, question by question: words, exactness, evidence, abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.core.protocols import Context, Scorer, View
from assay.core.types import Record, Score
from assay.scoring.text_overlap import abstains, exact_match, list_f1, recall, token_f1
from assay.solvers.memory.conversation import PACKET
from assay.suites.memory_test.conversation import Question

F1, EXACT, RECALL, ABSTENTION = "f1", "exact_match", "evidence_recall", "abstention"
JUDGED = "judged"
METRICS = (JUDGED, F1, EXACT, RECALL, ABSTENTION)
LISTS, FIRST = "lists", "first"
"""How LoCoMo compares two of its categories: part by part of a list; with what stands before a `;`."""


class Gold(Struct, frozen=True):
    """What a scorer knows of a conversation: its questions in order, and the messages that are there."""

    questions: Sequence[Question]
    known: frozenset[str]
    rules: Mapping[Any, str] = {}
    sample_id: str = ""
    tests: int = 0
    """How many there are: scores of all but the last are marked, so that comparisons leave them out."""


class MemoryScorer(Scorer):
    """Scores of a question have the part TEST/QUESTION."""

    def __init__(self, scorer_id: str, *, answers: bool) -> None:
        self.id = scorer_id
        self._answers = answers

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """Every answer by every measure that applies to it."""
        return [score for record in answers_of(view.records) for score in self._scores(view, record)]

    def _scores(self, view: View, record: Record) -> list[Score]:
        case, said = view.case, record.data
        question = case.gold.questions[said["question"] - 1]
        told = about(case.gold, said)
        return [
            Score(
                *case.head,
                self.id,
                metric,
                part=record.part,
                value=value,
                data=told,
                interim=is_interim(case.gold, said),
            )
            for metric, value in self._values(question, said, case.gold)
        ]

    def _values(self, question: Question, said: Mapping[str, Any], gold: Gold) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        wanted = [place for place in question.places if place in gold.known]
        share = recall([place for one in said["found"] for place in _places(one)], wanted)
        if share is not None:
            found.append((RECALL, share))
        if not self._answers:
            return found
        if question.abstention:
            return [*found, (ABSTENTION, float(abstains(said["answer"])))]
        reference = reference_of(question, gold.rules)
        if reference is not None:
            found += _compared(said["answer"], reference, gold.rules.get(question.category))
        return found


def _places(found: Sequence[str]) -> Sequence[str]:
    """The messages behind an item. One that sums up more than a packet has found none of them."""
    _, *sources = found
    return sources if len(sources) <= PACKET else []


def _compared(said: str, reference: str, rule: str | None) -> list[tuple[str, float]]:
    measure = list_f1 if rule == LISTS else token_f1
    return [(F1, measure(said, reference)), (EXACT, exact_match(said, reference))]


def about(gold: Gold, said: Mapping[str, Any]) -> dict[str, Any]:
    """What a score tells of its question besides the value."""
    question = gold.questions[said["question"] - 1]
    return {"category": question.category, "id": gold.sample_id}


def is_interim(gold: Gold, said: Mapping[str, Any]) -> bool:
    """Whether the question is asked again in a later test."""
    return bool(said["test"] < gold.tests)


def reference_of(question: Question, rules: Mapping[Any, str]) -> str | None:
    """What an answer is compared with; None where right is to abstain, or the data has no answer."""
    if question.abstention or question.reference is None:
        return None
    reference = str(question.reference)
    return reference.partition(";")[0] if rules.get(question.category) == FIRST else reference


def answers_of(records: Sequence[Record]) -> list[Record]:
    """The answers in order of test and question, which is not the order in which they came."""
    answers = [record for record in records if record.kind == "answer"]
    return sorted(answers, key=lambda record: (record.data["test"], record.data["question"]))
