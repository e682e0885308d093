"""Keys of rows, and how rows with equal keys are told apart.

    repeated = RepeatedKeys()
    for row in rows:
        repeated.add(row_key(row))
    unique_keys = UniqueKeys(repeated.keys())
    keys = [unique_keys.of(row_key(row)) for row in rows]

A key is a hash of the row's content. Of rows with equal keys the first one keeps it, the second one gets `key~2`.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from itertools import pairwise

# With fewer rows than this, plain Python is faster than importing numpy.
_NUMPY_FROM = 50_000


def row_key(raw: bytes) -> str:
    """Return the key of a row: sixteen hex digits that depend on its bytes only, not on its place in the file."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


class UniqueKeys:
    """Makes row keys unique: the second row with an equal key gets `key~2`.

    It needs the keys that occur more than once in advance and stores only those, so that memory does not grow with
    the data.
    """

    def __init__(self, repeated: Iterable[str] = ()) -> None:
        self._seen = dict.fromkeys(repeated, 0)

    def __len__(self) -> int:
        return len(self._seen)

    def repeats(self, key: str) -> bool:
        """Return whether this key occurs more than once."""
        return key in self._seen

    def of(self, key: str) -> str:
        """Return the unique key of the next row. Call it once for each row, in data order."""
        if key not in self._seen:
            return key
        self._seen[key] += 1
        count = self._seen[key]
        return key if count == 1 else f"{key}~{count}"


class RepeatedKeys:
    """Finds the keys that occur more than once. It needs eight bytes of memory per row."""

    def __init__(self) -> None:
        self._digests = array("Q")

    def add(self, key: str) -> None:
        """Add the key of one row."""
        self._digests.append(int(key, 16))

    def keys(self) -> list[str]:
        """Return the keys that were added more than once."""
        return [f"{digest:016x}" for digest in repeated_numbers(self._digests)]


def repeated_numbers(digests: array[int]) -> set[int]:
    """Return the numbers that occur more than once. Sorts a large array in place."""
    if len(digests) < _NUMPY_FROM:
        if len(set(digests)) == len(digests):
            return set()
        return {a for a, b in pairwise(sorted(digests)) if a == b}
    import numpy as np

    # frombuffer makes a view of the array, so that sorting needs no copy.
    view = np.frombuffer(digests, dtype=digests.typecode)
    view.sort()
    return set(view[1:][view[1:] == view[:-1]].tolist())
