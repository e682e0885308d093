"""Embeddings offline: the mean of WordLlama's token vectors, 256 numbers a text (extra `memory`).

The package carries its weights and its tokenizer. Both are read from its folder; its code is never imported,
for that sets up logging for the whole program, and can download.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.embedding import Embedder
from assay.core.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"


class WordLlama:
    """Frequent tokens have short vectors in this table, so a plain mean is already a weighted one."""

    def __init__(self, weights: NDArray[Any], tokenizer: Tokenizer) -> None:
        self._weights, self._tokenizer = weights, tokenizer

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """A row for each text; of zeros where it has no token."""
        import numpy as np

        found = np.zeros((len(texts), self._weights.shape[1]), np.float32)
        for row, text in zip(found, texts, strict=True):
            # One text at a time: batches start threads, which a later fork would complain about.
            ids = self._tokenizer.encode(_written(text), add_special_tokens=False).ids
            if ids:
                row[:] = self._mean(ids)
        return found

    def _mean(self, ids: list[int]) -> NDArray[Any]:
        """Each token once, times its count: a long text needs no more room than the table."""
        import numpy as np

        tokens, counts = np.unique(np.asarray(ids), return_counts=True)
        vectors = self._weights[tokens].astype(np.float32)
        # `@` would start threads, and wait for them longer than this takes.
        total: NDArray[Any] = np.einsum("i,ij->j", counts.astype(np.float32), vectors)
        total /= max(float(np.linalg.norm(total)), 1e-9)
        return total


def _written(text: str) -> str:
    """Half of a pair of surrogates is no character; the tokenizer would refuse it."""
    return text.encode("utf-8", "replace").decode()


@cache
def load() -> Embedder:
    """The one of this process: 16 MB, in a quarter of a second. MissingExtra without the package."""
    folder = _folder()
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    return WordLlama(load_file(folder / _WEIGHTS)[_TENSOR], Tokenizer.from_file(str(folder / _TOKENIZER)))


def _folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the embedder 'wordllama'", "memory")
    folder = Path(spec.submodule_search_locations[0])
    if missing := [name for name in (_WEIGHTS, _TOKENIZER) if not (folder / name).is_file()]:
        raise UsageError(f"{folder} has no {missing[0]}: install wordllama 0.4, whose wheel carries it")
    return folder
