"""Hashes of content: fingerprints of options, keys of rows and requests. They are equal on every machine."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode
# With fewer rows than this, plain Python is faster than importing numpy.
_NUMPY_FROM = 50_000


def fingerprint(value: Any) -> str:
    """Return sixteen hex digits for a JSON-like value. The order of keys does not matter."""
    return hashlib.blake2b(_encode(_with_text_keys(value)), digest_size=8).hexdigest()


def _with_text_keys(value: Any) -> Any:
    """Return the value with every key as text. Keys from YAML may be numbers or booleans, which cannot be sorted."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def request_hash(request: msgspec.Struct) -> str:
    """Return the hash of a request. It has 128 bits, because replies in the call log are found by it alone."""
    return hashlib.blake2b(_encode(request), digest_size=16).hexdigest()


def row_key(raw: bytes) -> str:
    """Return the key of a row: sixteen hex digits that depend on its bytes only, not on its place in the file."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file. It is read in pieces, so large files need no memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Twins:
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

    def name(self, key: str) -> str:
        """Return the unique key of the next row. Call it once for each row, in data order."""
        if key not in self._seen:
            return key
        self._seen[key] += 1
        count = self._seen[key]
        return key if count == 1 else f"{key}~{count}"


class RepeatFinder:
    """Finds the keys that occur more than once. It needs eight bytes of memory per row."""

    def __init__(self) -> None:
        self._digests = array("Q")

    def add(self, key: str) -> None:
        """Add the key of one row."""
        self._digests.append(int(key, 16))

    def repeated(self) -> list[str]:
        """Return the keys that were added more than once."""
        return [f"{digest:016x}" for digest in repeated(self._digests)]


def repeated(digests: array[int]) -> set[int]:
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


def first_ones(digests: array[int]) -> bytearray:
    """Return a byte per number: 1 at its first occurrence, else 0. Leaves the array unchanged."""
    if len(digests) < _NUMPY_FROM:
        first_place: dict[int, int] = {}
        for place, digest in enumerate(digests):
            first_place.setdefault(digest, place)
        return bytearray(first_place[digest] == place for place, digest in enumerate(digests))
    import numpy as np

    view = np.frombuffer(digests, dtype=digests.typecode)
    order = np.argsort(view, kind="stable")
    in_order = view[order]
    flags = np.ones(len(digests), dtype=np.uint8)
    flags[order[1:][in_order[1:] == in_order[:-1]]] = 0
    return bytearray(flags)
