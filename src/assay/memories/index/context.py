"""Messages stand in a conversation: what fits a question spreads to those around it.

An answer follows its question, and a session has a topic. So a message gets a share of the score of those
before and after it in its session, less with each step, and a share of the best score of the session. And
a question that names somebody is about what they said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.core.memory import Message
from assay.memories.index.grown import Grown
from assay.memories.index.terms import terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 2
_FADES = 0.5


class Shares(Struct, frozen=True):
    """What a message gets of the one before, the one after, and the best one of its session.

    `speaker` is what it gets of all this once more if the question names its speaker.
    """

    before: float
    after: float
    session: float
    speaker: float


class Context:
    """Sessions and speakers of all messages. Sessions without a name are told apart by their ends."""

    def __init__(self) -> None:
        self._sessions, self._session = Grown("i4"), -1
        self._name: str | None = None
        self._speakers, self._known = Grown("i4"), dict[str, int]()
        self._called: dict[str, list[int]] = {}

    def add(self, messages: Sequence[Message]) -> None:
        """A message of another session than the last one begins a new one."""
        sessions = []
        for message in messages:
            if message.session != self._name:
                self._name, self._session = message.session, self._session + 1
            sessions.append(self._session)
        self._sessions.extend(sessions)
        self._speakers.extend([self._number(message.speaker) for message in messages])

    def end(self) -> None:
        """The next message begins a session, whatever its name."""
        self._name = None

    def _number(self, speaker: str) -> int:
        if speaker not in self._known:
            self._known[speaker] = len(self._known)
            for term in set(terms(speaker)):
                self._called.setdefault(term, []).append(self._known[speaker])
        return self._known[speaker]

    def spread(self, scores: NDArray[Any], shares: Shares, asked: Iterable[str]) -> NDArray[Any]:
        """Scores with what each message gets from others; `asked` are the terms of the question."""
        import numpy as np

        sessions, found = self._sessions.rows, scores.copy()
        for step in range(1, min(_STEPS, len(scores) - 1) + 1):
            same = (sessions[step:] == sessions[:-step]) * _FADES ** (step - 1)
            found[step:] += shares.before * same * scores[:-step]
            found[:-step] += shares.after * same * scores[step:]
        starts = np.flatnonzero(np.diff(sessions, prepend=-1))
        found += shares.session * np.maximum.reduceat(scores, starts)[sessions]
        if named := {number for term in asked for number in self._called.get(term, ())}:
            grows = np.ones(len(self._known))
            grows[list(named)] += shares.speaker
            found *= np.where(found > 0, grows[self._speakers.rows], 1)
        return found
