"""Questions for a judge, and its verdicts.

There are six kinds of question. Each one holds the things to be judged and names the labels that a judge may
give. A verdict has one label for each thing, in order:

    question = RecallQuestion(points=("Ada moved.", "Bob has a dog."), updates=(True, False), texts=memories)
    verdict = await panel.verdict(question, ctx)
    verdict.labels  # ("covered", "missed")

A reply that cannot be read gives an invalid verdict without labels. It is never guessed, and it never counts
as the worst label.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

CORRECT, HALLUCINATION, OMISSION = "Correct", "Hallucination", "Omission"
"""Labels of an answer. An answer that makes something up and leaves something out is a hallucination."""
COVERED, MISSED = "covered", "missed"
"""Labels of a memory point or of a piece of evidence."""
TRUE, FABRICATED, IRRELEVANT = "correct", "hallucination", "irrelevant"
"""Labels of a memory that was written."""
UPDATED, BOTH, OUTDATED = "updated", "both", "outdated"
"""Labels of a point that changed: memories hold the new state only, both states, or not the new state."""
REJECTED, MEMORIZED = "rejected", "memorized"
"""Labels of a point that no memory should keep."""


class AnswerQuestion(Struct, frozen=True):
    """Whether an answer is right. `evidence` are the texts that the reference follows from."""

    kind: ClassVar[str] = "answer"
    labels: ClassVar[tuple[str, ...]] = (CORRECT, HALLUCINATION, OMISSION)
    question: str
    reference: str
    response: str
    evidence: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """One answer."""
        return 1


class EvidenceQuestion(Struct, frozen=True):
    """Which pieces of evidence the texts cover."""

    kind: ClassVar[str] = "evidence"
    labels: ClassVar[tuple[str, ...]] = (COVERED, MISSED)
    evidence: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of pieces of evidence."""
        return len(self.evidence)


class RecallQuestion(Struct, frozen=True):
    """Which memory points the texts cover. `updates` says for each point whether it is an update."""

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
    """Whether written memories (`texts`) are true and worth keeping.

    `points` are those of the session that wrote them, `earlier_points` those of the sessions before.
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
    """Whether all memories together hold the new state of a point that changed, an old one, or both."""

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
    """Whether all memories together hold a point that should not have been kept."""

    kind: ClassVar[str] = "interference"
    labels: ClassVar[tuple[str, ...]] = (REJECTED, MEMORIZED)
    content: str
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """One point."""
        return 1


JudgeQuestion = (
    AnswerQuestion
    | EvidenceQuestion
    | RecallQuestion
    | CorrectnessQuestion
    | UpdateQuestion
    | InterferenceQuestion
)
KINDS = ("recall", "correctness", "update", "interference", "answer", "evidence")


class Verdict(Struct, frozen=True, omit_defaults=True):
    """One label for each thing of the question, or no label where the status is `invalid`.

    `sure` has a number from 0 to 1 for each thing. The judge `offline` measures how good the thing is, and
    `sure` is that measure. Where several votes were cast, `sure` is the share of valid votes for the chosen
    label, whatever the label. `votes` holds the labels of each valid vote where several were cast; `stable`
    says whether these votes are all equal.
    """

    labels: tuple[str, ...] = ()
    reason: str = ""
    status: Literal["scored", "invalid"] = "scored"
    sure: tuple[float, ...] = ()
    votes: tuple[tuple[str, ...], ...] = ()
    stable: bool | None = None

    @property
    def valid(self) -> bool:
        """Whether there are labels to count."""
        return self.status == "scored"


def invalid(reason: str) -> Verdict:
    """A verdict without labels."""
    return Verdict(reason=reason, status="invalid")


# The label that every thing gets when the memory is empty. Correctness is missing: it judges the texts
# themselves, and without texts it has nothing to label.
_LABEL_WITHOUT_TEXTS = {
    RecallQuestion: MISSED,
    EvidenceQuestion: MISSED,
    UpdateQuestion: OUTDATED,
    InterferenceQuestion: REJECTED,
}


def trivial_verdict(question: JudgeQuestion) -> Verdict | None:
    """The verdict where no judge is needed: empty questions, empty answers, empty memories. Else None.

    An empty answer is settled here because a model that is asked about one may call it correct.
    """
    if not question.count:
        return Verdict()
    if isinstance(question, AnswerQuestion):
        if question.response.strip():
            return None
        return Verdict((OMISSION,), "nothing was answered")
    label = _LABEL_WITHOUT_TEXTS.get(type(question))
    if label is None or any(text.strip() for text in question.texts):
        return None
    return Verdict((label,) * question.count, "there is no text to look at")
