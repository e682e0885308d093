"""What an embedder is: texts become vectors. One is a file in `assay.embedders` with `load()`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class Embedder(Protocol):
    """The same text gives the same vector, alone or among others."""

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """A row of float32 of length 1 for each text; of zeros for a text that holds nothing."""
        ...
