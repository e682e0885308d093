"""The solver of `assay memory try`: feeds one conversation to one memory and tells what it stores and finds.

Each session and each question becomes an object that is shown at once, while the memory works on the next one. For a
question the memory is searched twice: for `k` items, as an evaluation does, and for all its items. The second search
tells how far behind the evidence is that the first one missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from assay.core.errors import CaseFailed, ModelError
from assay.core.memory import MemoryItem, Message, Query, SearchHit
from assay.core.protocols import Context, Solver
from assay.core.types import Failure
from assay.suites.memory.conversation import PACKET, QuestionInput, split_packets
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.search import search_once
from assay.suites.memory.snapshots import ItemChange, diff_snapshots
from assay.suites.memory.timed_memory import TimedMemory


class TrialInputs(Struct, frozen=True):
    """One conversation with the questions to ask after its last message."""

    memory: str
    sessions: tuple[tuple[Message, ...], ...]
    questions: tuple[QuestionInput, ...]


class SessionTrial(Struct, frozen=True):
    """What a session did to the memory. `items` are all items after it."""

    messages: tuple[Message, ...]
    seconds: float
    changes: list[ItemChange]
    items: list[MemoryItem]


class EvidencePlace(Struct, frozen=True):
    """Where the search put one message of the evidence. `rank` counts from 1; None if no item has the message.

    `sources` is the number of messages that the item at this rank was made of. `stored` are the ids of all stored items
    that were made of the message. `message` is None if the conversation has no such message.
    """

    id: str
    message: Message | None
    rank: int | None
    sources: int
    stored: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether evaluations count the item for this message. A summary of many messages counts for none."""
        return self.rank is not None and self.sources <= PACKET


class QuestionTrial(Struct, frozen=True):
    """One question: what a search for `k` items returned, and where the evidence is among all items."""

    question: QuestionInput
    hits: list[SearchHit]
    seconds: float
    evidence: list[EvidencePlace]
    failure: Failure | None = None


Show = Callable[[SessionTrial | QuestionTrial | Failure], None]


class TrialSolver(Solver):
    """Passes a SessionTrial for each session and a QuestionTrial for each question to `show`, as they happen.

    A Failure is passed if the memory fails while it stores, or a model cannot be asked. It ends the trial.
    """

    def __init__(self, memories: MemorySet, k: int, show: Show) -> None:
        self._memories = memories
        self._k = k
        self._show = show

    async def solve(self, inputs: TrialInputs, ctx: Context) -> None:
        """Feed the sessions, then search for the questions, in order."""
        try:
            async with self._memories.open(inputs.memory, ctx) as memory:
                items: list[MemoryItem] = []
                for messages in inputs.sessions:
                    items = await self._feed(messages, items, memory)
                for question in inputs.questions:
                    self._show(await self._ask(question, inputs, items, memory))
        except (CaseFailed, ModelError) as error:
            self._show(error.failure)
            raise

    async def _feed(
        self, messages: tuple[Message, ...], before: list[MemoryItem], memory: TimedMemory
    ) -> list[MemoryItem]:
        seconds = 0.0
        for packet, last in split_packets([messages]):
            seconds += await memory.add(packet)
            if last:
                seconds += await memory.end_session()
        items = await memory.items()
        changes = diff_snapshots(before, items, messages[0].session)
        self._show(SessionTrial(messages, seconds, changes.changes, items))
        return items

    async def _ask(
        self, question: QuestionInput, inputs: TrialInputs, items: list[MemoryItem], memory: TimedMemory
    ) -> QuestionTrial:
        needs_evidence = inputs.memory in self._memories.needing_evidence
        query = Query(question.text, question.evidence if needs_evidence else (), question.date)
        search = await search_once(memory, query, self._k)
        if search.failure is not None:
            return QuestionTrial(question, [], 0.0, [], search.failure)
        # A memory may give more items than it lists, so the search asks for some more.
        everything = await search_once(memory, query, len(items) + self._k)
        places = _evidence_places(question.evidence, inputs, items, search.hits, everything.hits)
        return QuestionTrial(question, search.hits, search.seconds, places)


def _evidence_places(
    evidence: Sequence[str],
    inputs: TrialInputs,
    items: Sequence[MemoryItem],
    hits: Sequence[SearchHit],
    all_hits: Sequence[SearchHit],
) -> list[EvidencePlace]:
    messages = {message.id: message for session in inputs.sessions for message in session}
    places: list[EvidencePlace] = []
    for name in evidence:
        rank, sources = _rank(name, hits)
        if rank is None:
            rank, sources = _rank(name, all_hits)
            # The second search ranks otherwise if the memory draws at random or learns from searches. The message is
            # missing among the first k all the same.
            rank = None if rank is None else max(rank, len(hits) + 1)
        stored = tuple(item.id for item in items if name in item.sources)
        places.append(EvidencePlace(name, messages.get(name), rank, sources, stored))
    return places


def _rank(name: str, hits: Sequence[SearchHit]) -> tuple[int | None, int]:
    """Return the best rank of an item with this message, and the number of its messages. Small items come first."""
    ranks = [(rank, len(hit.item.sources)) for rank, hit in enumerate(hits, 1) if name in hit.item.sources]
    if not ranks:
        return None, 0
    return min(ranks, key=lambda place: (place[1] > PACKET, place[0]))
