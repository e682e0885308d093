"""Offline embeddings: the mean of WordLlama's token vectors, 256 numbers a text (extra `memory`).

The package carries its weights and its tokenizer. Both are read from its folder. Its code is never
imported: that sets up logging for the whole program, and can download.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import MissingExtra, UsageError
from assay.core.memory import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"


@cache
def load() -> Embedder:
    """Return the one embedder of this process. Loading takes 16 MB and a quarter of a second."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the embedder 'wordllama'", "memory")
    folder = Path(spec.submodule_search_locations[0])
    for name in (_WEIGHTS, _TOKENIZER):
        if not (folder / name).is_file():
            raise UsageError(
                f"{folder} has no {name}: install the version that has it: pip install 'assay[memory]'"
            )
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    return WordLlama(load_file(folder / _WEIGHTS)[_TENSOR], Tokenizer.from_file(str(folder / _TOKENIZER)))


class WordLlama:
    """Embeds a text by the mean of its token vectors.

    Frequent tokens have short vectors in this table, so the plain mean is already a weighted one.
    """

    def __init__(self, weights: NDArray[Any], tokenizer: Tokenizer) -> None:
        self._weights, self._tokenizer = weights, tokenizer

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return a row for each text, of zeros where it has no token."""
        import numpy as np

        rows = np.zeros((len(texts), self._weights.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # Half of a surrogate pair is no character; the tokenizer would refuse it.
            clean = text.encode("utf-8", "replace").decode()
            # One text at a time: batches start threads, which a later fork would complain about.
            ids = self._tokenizer.encode(clean, add_special_tokens=False).ids
            if ids:
                row[:] = self._mean(ids)
        return rows

    def _mean(self, ids: list[int]) -> NDArray[Any]:
        """Return the mean, scaled to length 1."""
        import numpy as np

        # Each distinct token once, times its count: a long text needs no more memory than the table.
        tokens, counts = np.unique(np.asarray(ids), return_counts=True)
        vectors = self._weights[tokens].astype(np.float32)
        # `@` would start threads, and wait for them longer than this takes.
        total: NDArray[Any] = np.einsum("i,ij->j", counts.astype(np.float32), vectors)
        total /= max(float(np.linalg.norm(total)), 1e-9)
        return total
