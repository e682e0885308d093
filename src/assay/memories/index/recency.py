"""How long ago something was last touched, as a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def recency(decay: float, now: int, last: Sequence[int]) -> NDArray[Any]:
    """`decay ** (now - last)`: 1 for what was touched now, less with each message since."""
    import numpy as np

    found: NDArray[Any] = decay ** (now - np.asarray(last, dtype=np.float64))
    return found
