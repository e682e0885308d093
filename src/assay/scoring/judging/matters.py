"""What can be put before a judge, and what a judge says.

Each matter lists the things that are judged. A verdict has one label for each of them, in that order, or is
invalid and has none: a reply that cannot be read is never guessed, and never the worst label.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

CORRECT, HALLUCINATION, OMISSION = "Correct", "Hallucination", "Omission"
"""Of an answer. To make something up is worse than to leave something out, and wins over it."""
COVERED, MISSED = "covered", "missed"
"""Of a memory point or a piece of evidence."""
TRUE, FABRICATED, IRRELEVANT = "correct", "hallucination", "irrelevant"
"""Of a memory that was written."""
UPDATED, BOTH, OUTDATED = "updated", "both", "outdated"
"""Of a point that changed: only the new is held, new and old, or the old alone (or neither)."""
REJECTED, MEMORIZED = "rejected", "memorized"
"""Of a point that no memory should keep."""


class Answered(Struct, frozen=True):
    """An answer to a question. `evidence` are the texts that the reference follows from."""

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


class Cited(Struct, frozen=True):
    """Pieces of evidence, and texts that may cover them."""

    kind: ClassVar[str] = "evidence"
    labels: ClassVar[tuple[str, ...]] = (COVERED, MISSED)
    evidence: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """Pieces of evidence."""
        return len(self.evidence)


class Kept(Struct, frozen=True):
    """Memory points, and texts that may cover them. `updates` says which of the points are updates."""

    kind: ClassVar[str] = "recall"
    labels: ClassVar[tuple[str, ...]] = (COVERED, MISSED)
    points: tuple[str, ...]
    updates: tuple[bool, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """Points."""
        return len(self.points)


class Written(Struct, frozen=True):
    """Written memories: are they true, and worth keeping. `known` are points of earlier sessions."""

    kind: ClassVar[str] = "correctness"
    labels: ClassVar[tuple[str, ...]] = (TRUE, FABRICATED, IRRELEVANT)
    points: tuple[str, ...]
    known: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """Memories."""
        return len(self.texts)


class Changed(Struct, frozen=True):
    """A point that changed: do all memories together hold the new one, the old ones, or both."""

    kind: ClassVar[str] = "update"
    labels: ClassVar[tuple[str, ...]] = (UPDATED, BOTH, OUTDATED)
    new: str
    old: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """One point."""
        return 1


class Interfering(Struct, frozen=True):
    """A point that should not have been kept, and all memories together."""

    kind: ClassVar[str] = "interference"
    labels: ClassVar[tuple[str, ...]] = (REJECTED, MEMORIZED)
    content: str
    texts: tuple[str, ...]

    @property
    def count(self) -> int:
        """One point."""
        return 1


Matter = Answered | Cited | Kept | Written | Changed | Interfering
KINDS = ("recall", "correctness", "update", "interference", "answer", "evidence")


class Verdict(Struct, frozen=True, omit_defaults=True):
    """One label for each thing of the matter, or none where the status is `invalid`.

    `sure` has a number from 0 to 1 for each thing. Of a judge with a measure behind its labels (`offline`) it
    is that measure, and says how good the thing is. Where several votes were cast it is the share of valid
    votes for the chosen label, and says nothing of good or bad. `votes` are the labels of each valid vote
    where several were cast; `stable` says whether they all agree.
    """

    labels: tuple[str, ...] = ()
    reason: str = ""
    status: Literal["scored", "invalid"] = "scored"
    sure: tuple[float, ...] = ()
    votes: tuple[tuple[str, ...], ...] = ()
    stable: bool | None = None

    @property
    def valid(self) -> bool:
        """Whether there is something to count."""
        return self.status == "scored"


def invalid(why: str) -> Verdict:
    """No verdict, and the reason."""
    return Verdict(reason=why, status="invalid")
