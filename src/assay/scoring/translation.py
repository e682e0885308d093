"""BLEU, chrF, chrF++ and TER over all documents, by sacrebleu (extra `bleu`).

All four scores are computed from counts that are summed over documents. So the counts of each document are
computed once, and a resample only adds them up. lm-evaluation-harness counts every document again in every draw.
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
    """Return the aggregation of this name. It takes pairs [reference or list of references, answer]."""
    return partial(_score, name)


def resampled(name: str) -> Callable[[Sequence[Any]], tuple[NDArray[np.int64], RowStatistic]]:
    """Return the function that prepares the bootstrap: it returns positions, and the score of rows of positions."""
    return partial(_resampled, name)


def check_installed(name: str) -> None:
    """Raise MissingExtra if sacrebleu is not installed."""
    if find_spec("sacrebleu") is None:
        raise MissingExtra(f"the metric {name!r}", "bleu")


def _score(name: str, pairs: Sequence[Any]) -> float:
    return _CountedDocuments(name, pairs).score(range(len(pairs)))


def _resampled(name: str, pairs: Sequence[Any]) -> tuple[NDArray[np.int64], RowStatistic]:
    import numpy as np

    documents = _CountedDocuments(name, pairs)
    return np.arange(len(pairs)), lambda rows: [documents.score(row) for row in rows.tolist()]


class _CountedDocuments:
    """Documents with the counts of sacrebleu."""

    def __init__(self, name: str, pairs: Sequence[Any]) -> None:
        check_installed(name)
        self._metric = _metric(name)
        self._references = [_texts(references) for references, _ in pairs]
        self._answers = [_texts(answer)[0] for _, answer in pairs]
        self._counts = cache(self._count)  # by the number of references

    def score(self, positions: Sequence[int]) -> float:
        """Return the score of these documents.

        All documents use as many references as the one with the fewest, as in lm-evaluation-harness.
        """
        counts = self._counts(min(len(self._references[position]) for position in positions))
        return float(self._metric._aggregate_and_compute([counts[p] for p in positions]).score)  # noqa: SLF001

    def _count(self, references: int) -> list[Any]:
        streams = list(zip_longest(*(texts[:references] for texts in self._references)))
        counts: list[Any] = self._metric._extract_corpus_statistics(self._answers, streams)  # noqa: SLF001
        return counts


def _metric(name: str) -> Any:
    """Return the metric of sacrebleu, with its default settings."""
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
    """Return a value as a list of texts. An empty list becomes one empty text."""
    if isinstance(value, (list, tuple)):
        return [str(text) for text in value or [""]]
    return [str(value)]
