"""Offline embeddings: the mean of WordLlama's token vectors, 256 numbers per text. Needs the extra `memory`.

Weights and tokenizer are files of the `wordllama` package. The package itself is never imported, because its import
sets up logging for the whole process and may download files.
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
    """Return the embedder, which is loaded once per process. Loading takes 16 MB and a quarter of a second."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the embedder 'wordllama'", "memory")
    folder = Path(spec.submodule_search_locations[0])
    for name in (_WEIGHTS, _TOKENIZER):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} has no {name}. Install the version that has it: pip install 'assay[memory]'")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    return WordLlama(load_file(folder / _WEIGHTS)[_TENSOR], Tokenizer.from_file(str(folder / _TOKENIZER)))


class WordLlama:
    """Embeds a text as the mean of its token vectors.

    Frequent tokens have short vectors in this table, so that the plain mean gives them less weight.
    """

    def __init__(self, weights: NDArray[Any], tokenizer: Tokenizer) -> None:
        self._weights, self._tokenizer = weights, tokenizer

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return a row per text. The row of a text without tokens is zero."""
        import numpy as np

        rows = np.zeros((len(texts), self._weights.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # The tokenizer rejects lone surrogates.
            clean = text.encode("utf-8", "replace").decode()
            # One text at a time, because batches start threads, and the tokenizer warns about a fork after that.
            ids = self._tokenizer.encode(clean, add_special_tokens=False).ids
            if ids:
                row[:] = self._mean(ids)
        return rows

    def _mean(self, ids: list[int]) -> NDArray[Any]:
        """Return the mean of the token vectors, scaled to length 1."""
        import numpy as np

        # Each distinct token is looked up once, so that a long text needs no more memory than the table.
        tokens, counts = np.unique(np.asarray(ids), return_counts=True)
        vectors = self._weights[tokens].astype(np.float32)
        # The operator `@` starts threads, which takes longer than this sum.
        total: NDArray[Any] = np.einsum("i,ij->j", counts.astype(np.float32), vectors)
        total /= max(float(np.linalg.norm(total)), 1e-9)
        return total
