"""The seeded bootstrap of lm-evaluation-harness, bit for bit, in numpy."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from assay.scoring.averages import sample_stddev

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

BOOTSTRAP_DRAWS = 100_000
_CHUNK = 1000
_MOST_CELLS = 50_000  # at a time: fits the cache, and bounds the memory

# From rows of drawn values to a number for each row.
OfRows = Callable[["NDArray[Any]"], "NDArray[np.float64] | list[float]"]


def bootstrap_stderr(values: ArrayLike, of_rows: OfRows, draws: int = BOOTSTRAP_DRAWS) -> float:
    """The standard deviation of a statistic over draws of as many values as there are."""
    import numpy as np

    data = np.asarray(values)
    found: list[float] = []
    for positions in drawn(len(data), draws):
        found.extend(np.asarray(of_rows(data.take(positions))).tolist())
    return sample_stddev(found)


def drawn(count: int, draws: int = BOOTSTRAP_DRAWS) -> Iterator[NDArray[np.int64]]:
    """Drawn positions, a row for each draw, some rows at a time.

    Draws i*1000 to i*1000+999 come from `random.Random(i).choices`. Fewer than 1000 are one chunk; of more,
    what is left over after the last whole chunk is not drawn: so does the harness.
    """
    import numpy as np

    chunk = min(_CHUNK, draws)
    rows = max(1, min(chunk, _MOST_CELLS // count))  # one stream, however it is cut
    for seed in range(draws // chunk):
        stream = _mersenne(seed)
        for start in range(0, chunk, rows):
            uniform = stream.random_sample((min(rows, chunk - start), count))
            uniform *= count
            yield uniform.astype(np.int64)


def _mersenne(seed: int) -> np.random.RandomState:
    """Numpy's generator in the state of Python's own, which the harness draws from."""
    import numpy as np

    state = random.Random(seed).getstate()[1]  # noqa: S311
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    return generator
