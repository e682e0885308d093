"""Words and embeddings together, by reciprocal rank fusion, with what stands around each message.

The defaults were chosen on LoCoMo, where they lie on a plateau: half or twice a share costs 1.3 points of
recall@10 at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.index.context import Context, Shares
from assay.memories.index.held import Held
from assay.memories.index.postings import Postings
from assay.memories.index.ranking import best, fused
from assay.memories.index.terms import terms
from assay.memories.listing.items import indexed, item_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABOUT = AboutMemory(
    summary="finds messages by words and embeddings, in the context of their sessions",
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
"""`before`, `after`, `session` and `speaker` are shares of context (`index/context.py`), `weight` is what the
order by embeddings counts, where that by words counts 1, `constant` is the fusion's own, and so many of each
order as `depth` are fused."""


class Hybrid:
    """Both scores are spread to the messages around before they become orders."""

    def __init__(self, around: Around, options: Mapping[str, Any]) -> None:
        self._options = options
        self._held = Held(around, centre=options["centre"])
        self._shares = Shares(*(options[name] for name in Shares.__struct_fields__))
        self.reset()

    def reset(self) -> None:
        """Hold nothing."""
        self._held.reset()
        self._context = Context()
        self._postings = Postings(self._options["k1"], self._options["b"])

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message; where the embedding fails, nothing of them is held."""
        if not messages:
            return
        texts = [indexed(message, date=self._options["date"]) for message in messages]
        await self._held.add([item_of(message) for message in messages], texts)
        self._postings.add(list(map(terms, texts)))
        self._context.add(messages)

    async def search(self, query: Query, k: int) -> list[Found]:
        """Best first; the score is the fusion's. Nothing for an empty question."""
        if not self._held.items or not query.text.strip():
            return []
        vector, asked = await self._held.vector(query.text), terms(query.text)
        orders = [(1.0, self._order(self._postings.scores(asked), asked, k, above=0))]
        if vector.any():
            orders.append((self._options["weight"], self._order(self._held.cosines(vector), asked, k)))
        return [
            Found(self._held.items[place], score)
            for place, score in fused(orders, self._options["constant"])[: max(k, 0)]
        ]

    def _order(self, scores: NDArray[Any], asked: Sequence[str], k: int, **bound: float) -> list[int]:
        spread = self._context.spread(scores, self._shares, asked)
        return best(spread, max(k, self._options["depth"]), **bound)

    def items(self) -> list[Item]:
        """In the order in which they came."""
        return list(self._held.items)

    def end_session(self) -> None:
        """What comes next stands in another context."""
        self._context.end()


def make(around: Around) -> Hybrid:
    """It needs the embedder only."""
    return Hybrid(around, options_of(ABOUT, around.options))
