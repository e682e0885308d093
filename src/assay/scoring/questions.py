"""Questions for a judge, and its verdicts.

There are six kinds of question. A question contains the items to be judged and lists the labels that a judge may
use. A verdict has one label for each item, in order:

    question = RecallQuestion(points=("Ada moved.", "Bob has a dog."), updates=(True, False), texts=memories)
    verdict = await judge.verdict(question, ctx)
    verdict.labels  # ("covered", "missed")

A reply that cannot be read gives an invalid verdict without labels. The labels are never guessed, and an invalid
verdict does not count as the worst label.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

# Labels of an answer. An answer that makes something up and leaves something out is a hallucination.
CORRECT, HALLUCINATION, OMISSION = "Correct", "Hallucination", "Omission"
# Labels of a memory point or of a piece of evidence.
COVERED, MISSED = "covered", "missed"
# Labels of a written memory. The words are those of the file format.
TRUE, FABRICATED, IRRELEVANT = "correct", "hallucination", "irrelevant"
# Labels of a changed point: the memories contain the new state only, both states, or not the new state.
UPDATED, BOTH, OUTDATED = "updated", "both", "outdated"
# Labels of a point that no memory should contain.
REJECTED, MEMORIZED = "rejected", "memorized"


class AnswerQuestion(Struct, frozen=True):
    """Asks whether an answer is right. `evidence` are the texts from which the reference follows.

    `rule` is what a protocol says about questions of this type. Only prompts with {rule} show it.
    """

    kind: ClassVar[str] = "answer"
    labels: ClassVar[tuple[str, ...]] = (CORRECT, HALLUCINATION, OMISSION)
    question: str
    reference: str
    response: str
    evidence: tuple[str, ...] = ()
    rule: str = ""

    @property
    def count(self) -> int:
        """One answer."""
        return 1


class EvidenceQuestion(Struct, frozen=True):
    """Asks which pieces of evidence the texts cover."""

    kind: ClassVar[str] = "evidence"
    labels: ClassVar[tuple[str, ...]] = (COVERED, MISSED)
    evidence: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of pieces of evidence."""
        return len(self.evidence)


class RecallQuestion(Struct, frozen=True):
    """Asks which memory points the texts cover. `updates` tells for each point whether it is an update."""

    kind: ClassVar[str] = "recall"
    labels: ClassVar[tuple[str, ...]] = (COVERED, MISSED)
    points: tuple[str, ...]
    updates: tuple[bool, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of points."""
        return len(self.points)


class CorrectnessQuestion(Struct, frozen=True):
    """Asks whether written memories (`texts`) are true and worth keeping.

    `points` are the memory points of the session that wrote them, `earlier_points` those of earlier sessions.
    """

    kind: ClassVar[str] = "correctness"
    labels: ClassVar[tuple[str, ...]] = (TRUE, FABRICATED, IRRELEVANT)
    points: tuple[str, ...]
    earlier_points: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of memories."""
        return len(self.texts)


class UpdateQuestion(Struct, frozen=True):
    """Asks whether all memories together contain the new state of a changed point, an old state, or both."""

    kind: ClassVar[str] = "update"
    labels: ClassVar[tuple[str, ...]] = (UPDATED, BOTH, OUTDATED)
    new: str
    old: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """One point."""
        return 1


class InterferenceQuestion(Struct, frozen=True):
    """Asks whether all memories together contain a point that should not have been stored."""

    kind: ClassVar[str] = "interference"
    labels: ClassVar[tuple[str, ...]] = (REJECTED, MEMORIZED)
    content: str
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """One point."""
        return 1


JudgeQuestion = (
    AnswerQuestion | EvidenceQuestion | RecallQuestion | CorrectnessQuestion | UpdateQuestion | InterferenceQuestion
)
KINDS = ("recall", "correctness", "update", "interference", "answer", "evidence")


class Verdict(Struct, frozen=True, omit_defaults=True):
    """One label for each item of the question, or no labels if the status is `invalid`.

    `sure` has a number from 0 to 1 for each item. For the judge `offline` it is the measured quality: an answer
    from its threshold on is correct. For a model with several votes it is the share of valid votes for the
    chosen label. With several votes, `votes` has the labels of each valid vote, and `stable` tells whether all
    of them are equal.
    """

    labels: tuple[str, ...] = ()
    reason: str = ""
    status: Literal["scored", "invalid"] = "scored"
    sure: tuple[float, ...] = ()
    votes: tuple[tuple[str, ...], ...] = ()
    stable: bool | None = None

    @property
    def valid(self) -> bool:
        """Whether the verdict has labels."""
        return self.status == "scored"


def invalid(reason: str) -> Verdict:
    """Return a verdict without labels."""
    return Verdict(reason=reason, status="invalid")


# The label of every item if the memory is empty. CorrectnessQuestion is not in the table: its items are the texts
# themselves, so without texts it has no items.
_LABEL_WITHOUT_TEXTS = {
    RecallQuestion: MISSED,
    EvidenceQuestion: MISSED,
    UpdateQuestion: OUTDATED,
    InterferenceQuestion: REJECTED,
}


EMPTY_ANSWER, NO_TEXTS = "the answer is empty", "there are no texts"
TRIVIAL_REASONS = frozenset({EMPTY_ANSWER, NO_TEXTS})
"""The reasons of verdicts that no judge gave."""


def trivial_verdict(question: JudgeQuestion) -> Verdict | None:
    """Return the verdict if no judge is needed: empty question, empty answer or empty memory. Else None.

    An empty answer is always an omission. A model might call it correct.
    """
    if not question.count:
        return Verdict()
    if isinstance(question, AnswerQuestion):
        if question.response.strip():
            return None
        return Verdict((OMISSION,), EMPTY_ANSWER)
    label = _LABEL_WITHOUT_TEXTS.get(type(question))
    if label is None or any(text.strip() for text in question.texts):
        return None
    return Verdict((label,) * question.count, NO_TEXTS)
