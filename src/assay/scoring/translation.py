"""BLEU, chrF, chrF++ and TER over all documents, by sacrebleu (extra `bleu`).

All four scores are made of counts that are summed over documents. So documents are counted once, and a resample
costs a sum. The harness counts every document again in every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from assay.core.errors import MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assay.scoring.classification import RowStatistic

NAMES = ("bleu", "chrf", "chrf++", "ter")


def corpus_score(name: str) -> Callable[[Sequence[Any]], float]:
    """The aggregation of this name, of pairs [reference or references, answer]."""
    return partial(_score, name)


def resampled(name: str) -> Callable[[Sequence[Any]], tuple[NDArray[np.int64], RowStatistic]]:
    """For the bootstrap: positions as data, and the score of rows of positions."""
    return partial(_resampled, name)


def check_installed(name: str) -> None:
    """MissingExtra where sacrebleu is not there."""
    if find_spec("sacrebleu") is None:
        raise MissingExtra(f"the metric {name!r}", "bleu")


def _score(name: str, pairs: Sequence[Any]) -> float:
    return _CountedDocuments(name, pairs).score(range(len(pairs)))


def _resampled(name: str, pairs: Sequence[Any]) -> tuple[NDArray[np.int64], RowStatistic]:
    import numpy as np

    documents = _CountedDocuments(name, pairs)
    return np.arange(len(pairs)), lambda rows: [documents.score(row) for row in rows.tolist()]


class _CountedDocuments:
    """Documents with what sacrebleu counts in each of them."""

    def __init__(self, name: str, pairs: Sequence[Any]) -> None:
        check_installed(name)
        self._metric = _metric(name)
        self._references = [_texts(wanted) for wanted, _ in pairs]
        self._answers = [_texts(given)[0] for _, given in pairs]
        self._counts = cache(self._count)

    def score(self, positions: Sequence[int]) -> float:
        """Of these documents. All use as many references as the one that has fewest, as in the harness."""
        counts = self._counts(min(len(self._references[position]) for position in positions))
        return float(self._metric._aggregate_and_compute([counts[p] for p in positions]).score)  # noqa: SLF001

    def _count(self, references: int) -> list[Any]:
        streams = list(zip_longest(*(texts[:references] for texts in self._references)))
        counts: list[Any] = self._metric._extract_corpus_statistics(self._answers, streams)  # noqa: SLF001
        return counts


def _metric(name: str) -> Any:
    """With sacrebleu's own defaults."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    makers: dict[str, Callable[[], Any]] = {
        "bleu": partial(BLEU, tokenize=BLEU.TOKENIZER_DEFAULT),
        "chrf": CHRF,
        "chrf++": partial(CHRF, word_order=2),
        "ter": TER,
    }
    return makers[name]()


def _texts(value: Any) -> list[str]:
    """One text or several. An empty list is an empty text, and anything else is written as a text."""
    if isinstance(value, (list, tuple)):
        return [str(text) for text in value or [""]]
    return [str(value)]
