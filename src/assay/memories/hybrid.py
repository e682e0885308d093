"""`hybrid`: finds messages by words and by embeddings, taking the surrounding messages into account.

Each message gets a BM25 score and a cosine. Both are spread to neighbouring messages and to the session, and the
two rankings are merged by reciprocal rank fusion.

The defaults were chosen on LoCoMo and are not sensitive there: halving or doubling any share costs at most 1.3
points of recall@10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.bm25_index import Bm25Index
from assay.memories.helpers.messages import index_text, message_item
from assay.memories.helpers.scores import GrowingArray, fuse_ranks, top_places
from assay.memories.helpers.terms import terms
from assay.memories.helpers.vectors import EmbeddedItems

if TYPE_CHECKING:
    from numpy.typing import NDArray

# `k1` and `b` belong to BM25, `date` and `centre` are those of the memory `dense`. `before`, `after`, `session` and
# `speaker` are the fields of ContextShares. `weight` is the weight of the ranking by embeddings; the ranking by
# words has weight 1. `constant` is the k of reciprocal rank fusion (60 in its paper), which merges the first
# `depth` places of each ranking.
ABOUT = AboutMemory(
    summary="finds messages by words and embeddings, and by the messages around them",
    embeds=True,
    options={
        "k1": 1.2,
        "b": 0.4,
        "date": True,
        "centre": True,
        "before": 0.4,
        "after": 0.2,
        "session": 0.5,
        "speaker": 0.5,
        "weight": 0.3,
        "constant": 60,
        "depth": 200,
    },
)
# A message shares its score with messages up to two steps away. At two steps the share is half as large.
_NEIGHBOUR_STEPS = 2
_STEP_FACTOR = 0.5


class HybridMemory:
    """Scores messages by words and by vectors, spreads both scores to neighbours, and fuses the rankings."""

    def __init__(self, context: MemoryContext, options: Mapping[str, Any]) -> None:
        self._options = options
        self._embedded = EmbeddedItems(context, centre=options["centre"])
        self._shares = ContextShares(*(options[name] for name in ContextShares.__struct_fields__))
        self.reset()

    def reset(self) -> None:
        """Remove all messages."""
        self._embedded.reset()
        self._neighbours = ConversationContext()
        self._index = Bm25Index(self._options["k1"], self._options["b"])

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. If the embedding fails, none of these messages is stored."""
        if not messages:
            return
        texts = [index_text(message, date=self._options["date"]) for message in messages]
        await self._embedded.add([message_item(message) for message in messages], texts)
        self._index.add(list(map(terms, texts)))
        self._neighbours.add(messages)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return messages by their fused rank, best first. An empty question returns none."""
        if not self._embedded.items or not query.text.strip():
            return []
        vector, query_terms = await self._embedded.embed(query.text), terms(query.text)
        rankings = [(1.0, self._rank(self._index.scores(query_terms), query_terms, k, above=0))]
        if vector.any():
            cosines = self._embedded.cosines(vector)
            rankings.append((self._options["weight"], self._rank(cosines, query_terms, k)))
        best = fuse_ranks(rankings, self._options["constant"])[: max(k, 0)]
        return [SearchHit(self._embedded.items[place], score) for place, score in best]

    def _rank(self, scores: NDArray[Any], query_terms: Sequence[str], k: int, **bound: float) -> list[int]:
        spread = self._neighbours.spread(scores, self._shares, query_terms)
        return top_places(spread, max(k, self._options["depth"]), **bound)

    def items(self) -> list[MemoryItem]:
        """Return the messages in the order in which they were stored."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Let the next message begin a new session."""
        self._neighbours.end_session()


class ContextShares(Struct, frozen=True):
    """How much of other scores is added to the score of a message.

    `before` and `after` are shares of the scores of the messages before and after it. `session` is a share of
    the best score in its session. If the question names the speaker of the message, its score is multiplied
    by 1 + `speaker`.
    """

    before: float
    after: float
    session: float
    speaker: float


class ConversationContext:
    """Sessions and speakers of all messages. Spreads scores among messages that belong together.

    The reasons: an answer follows its question, a session has a topic, and a question with a person's name is
    usually about something this person said. `end_session` separates sessions that have no name.
    """

    def __init__(self) -> None:
        self._sessions, self._session = GrowingArray("i4"), -1
        self._session_name: str | None = None
        self._speakers, self._speaker_numbers = GrowingArray("i4"), dict[str, int]()
        self._speakers_by_term: dict[str, list[int]] = {}

    def add(self, messages: Sequence[Message]) -> None:
        """Append messages. A message with another session name begins a new session."""
        sessions = []
        for message in messages:
            if message.session != self._session_name:
                self._session_name, self._session = message.session, self._session + 1
            sessions.append(self._session)
        self._sessions.extend(sessions)
        self._speakers.extend([self._speaker_number(message.speaker) for message in messages])

    def end_session(self) -> None:
        """Let the next message begin a new session, even if it has the same session name."""
        self._session_name = None

    def _speaker_number(self, speaker: str) -> int:
        if speaker not in self._speaker_numbers:
            self._speaker_numbers[speaker] = len(self._speaker_numbers)
            for term in set(terms(speaker)):
                self._speakers_by_term.setdefault(term, []).append(self._speaker_numbers[speaker])
        return self._speaker_numbers[speaker]

    def spread(self, scores: NDArray[Any], shares: ContextShares, query_terms: Iterable[str]) -> NDArray[Any]:
        """Return a copy of the scores to which the shares of other scores are added."""
        import numpy as np

        sessions, spread = self._sessions.rows, scores.copy()
        for step in range(1, min(_NEIGHBOUR_STEPS, len(scores) - 1) + 1):
            factors = (sessions[step:] == sessions[:-step]) * _STEP_FACTOR ** (step - 1)
            spread[step:] += shares.before * factors * scores[:-step]
            spread[:-step] += shares.after * factors * scores[step:]
        starts = np.flatnonzero(np.diff(sessions, prepend=-1))
        spread += shares.session * np.maximum.reduceat(scores, starts)[sessions]
        speakers = {number for term in query_terms for number in self._speakers_by_term.get(term, ())}
        if speakers:
            speaker_factors = np.ones(len(self._speaker_numbers))
            speaker_factors[list(speakers)] += shares.speaker
            # Only positive scores are multiplied: a negative score would become worse.
            spread *= np.where(spread > 0, speaker_factors[self._speakers.rows], 1)
        return spread


def make(context: MemoryContext) -> HybridMemory:
    """Make an empty memory."""
    return HybridMemory(context, options_of(ABOUT, context.options))
