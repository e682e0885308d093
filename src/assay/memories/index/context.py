"""Messages stand in a conversation: what fits a question spreads to those around it.

An answer follows its question, and a session has a topic. So a message gets a share of the score of those
before and after it in its session, less with each step, and a share of the best score of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.core.memory import Message
from assay.memories.index.grown import Grown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 2
_FADES = 0.5


class Shares(Struct, frozen=True):
    """What a message gets of the one before, of the one after, and of the best one of its session."""

    before: float
    after: float
    session: float


class Sessions:
    """Which messages belong together. Sessions without a name are told apart by their ends."""

    def __init__(self) -> None:
        self._numbers = Grown("i4")
        self._number = -1
        self._name: str | None = None

    def add(self, messages: Sequence[Message]) -> None:
        """A message of another session than the last one begins a new one."""
        numbers = []
        for message in messages:
            if message.session != self._name:
                self._name, self._number = message.session, self._number + 1
            numbers.append(self._number)
        self._numbers.extend(numbers)

    def end(self) -> None:
        """The next message begins a session, whatever its name."""
        self._name = None

    def spread(self, scores: NDArray[Any], shares: Shares) -> NDArray[Any]:
        """Scores with what each message gets from others."""
        import numpy as np

        numbers, found = self._numbers.rows, scores.copy()
        for step in range(1, min(_STEPS, len(scores) - 1) + 1):
            same = (numbers[step:] == numbers[:-step]) * _FADES ** (step - 1)
            found[step:] += shares.before * same * scores[:-step]
            found[:-step] += shares.after * same * scores[step:]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        found += shares.session * np.maximum.reduceat(scores, starts)[numbers]
        return found
