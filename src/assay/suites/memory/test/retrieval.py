"""How good the list of items is that a memory returns: recall at several ranks, precision, MRR, NDCG, sessions.

A rank counts items, as the memory returned them, from 1. An item is relevant if it was made of a message of the
evidence. An item made of more than one packet, such as a summary, has a rank and is relevant for no message: a summary
of all messages would have a recall of 1 without any search.

    retrieval_values([["a", "D1:1"], ["b", "D1:4"]], evidence={"D1:4"}, top_k=10)
    # {"recall_at_1": 0.0, "recall_at_5": 1.0, "recall_at_10": 1.0, "precision": 0.5, "mrr": 0.5, "ndcg": 0.63…}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import log2

from assay.suites.memory.conversation import PACKET
from assay.suites.memory.test.conversation import MessagePlace

PRECISION, MRR, NDCG, SESSIONS = "precision", "mrr", "ndcg", "session_recall"
# `@` in the name of a metric would be read as METRIC@SUBJECT by `assay gate`, so it is only in the label.
_RECALL_AT = "recall_at_"
_RANKS = (1, 5, 10)
_LABELS = {PRECISION: "precision", MRR: "MRR", NDCG: "NDCG", SESSIONS: "sessions"}


def recall_at(rank: int) -> str:
    """Return the name of the metric recall@rank."""
    return f"{_RECALL_AT}{rank}"


def retrieval_label(name: str) -> str:
    """Return the words for a metric of this module: `recall@5` for `recall_at_5`. Empty for any other name."""
    rank = name.removeprefix(_RECALL_AT)
    return f"recall@{rank}" if rank != name and rank.isdecimal() else _LABELS.get(name, "")


def retrieval_metrics(names: Iterable[str]) -> list[str]:
    """Return those of the names that are metrics of this module, in the order of the tables."""
    present = {name for name in names if retrieval_label(name)}
    recalls = sorted(present - _LABELS.keys(), key=lambda name: int(name.removeprefix(_RECALL_AT)))
    return [*recalls, *(name for name in _LABELS if name in present)]


def item_messages(hit: Sequence[str]) -> set[str]:
    """Return the messages that an item was made of, and none if they are more than one packet."""
    sources = hit[1:]
    return set(sources) if len(sources) <= PACKET else set()


def retrieval_values(
    hits: Sequence[Sequence[str]], evidence: Collection[str], top_k: int, *, ranked: bool = True
) -> dict[str, float]:
    """Return the values of one question with evidence, by metric.

    `hits` are as in `AnswerRecord`. Without items there is no precision. If the memory returns one text, its items are
    not `ranked`: only precision is measured.
    """
    wanted = set(evidence)
    items = [item_messages(hit) & wanted for hit in (hits[:top_k] if ranked else hits)]
    values: dict[str, float] = {}
    if ranked:
        values = _rank_values(items, wanted, top_k)
    if items:
        values[PRECISION] = sum(map(bool, items)) / len(items)
    return values


def _rank_values(items: Sequence[set[str]], wanted: set[str], top_k: int) -> dict[str, float]:
    """Return recall at several ranks, MRR and NDCG. `items` are the evidence messages of each item, best first."""
    found: set[str] = set()
    recalls: list[float] = []
    gain = 0.0
    first = 0
    # Evidence that came in one item with other evidence. The best list needs no item of its own for it.
    shared = 0
    for rank, messages in enumerate(items, 1):
        new = messages - found
        if new:
            first = first or rank
            gain += 1 / log2(rank + 1)
            shared += len(new) - 1
        found |= new
        recalls.append(len(found) / len(wanted))
    best = sum(1 / log2(rank + 1) for rank in range(1, min(len(wanted) - shared, top_k) + 1))
    values: dict[str, float] = {}
    for rank in sorted({rank for rank in (*_RANKS, top_k) if rank <= top_k}):
        values[recall_at(rank)] = recalls[min(rank, len(recalls)) - 1] if recalls else 0.0
    values[MRR] = 1 / first if first else 0.0
    values[NDCG] = gain / best
    return values


def session_recall(
    hits: Iterable[Sequence[str]], sessions: Collection[str], places: Mapping[str, MessagePlace]
) -> float | None:
    """Return the share of the sessions with evidence from which an item was returned; None without such sessions.

    An item belongs to a session if all its messages do. So a summary of one session counts, and a summary of several
    sessions does not.
    """
    if not sessions:
        return None
    retrieved: set[str] = set()
    for _, *sources in hits:
        own = {places[source].session for source in sources if source in places}
        if len(own) == 1:
            retrieved |= own
    return len(retrieved & set(sessions)) / len(set(sessions))
