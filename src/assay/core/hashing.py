"""Content keys and fingerprints: equal content has the same name, in every run and on every machine."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode
# Below this many rows a set is faster than numpy's import and sort.
_FEW = 50_000


def fingerprint(value: Any) -> str:
    """Sixteen hex digits for a JSON-like value. The order of keys does not matter."""
    return hashlib.blake2b(_encode(_with_text_keys(value)), digest_size=8).hexdigest()


def _with_text_keys(value: Any) -> Any:
    """The value with every key as text: YAML keys may be numbers or booleans."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else repr(key): _with_text_keys(item) for key, item in value.items()
        }
    return [_with_text_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def request_hash(request: msgspec.Struct) -> str:
    """The hash of a request in the call log. It has 128 bits because replies are found by it alone."""
    return hashlib.blake2b(_encode(request), digest_size=16).hexdigest()


def row_key(raw: bytes) -> str:
    """The key of a row: sixteen hex digits of its bytes, independent of its place in the file."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def file_sha256(path: Path) -> str:
    """The hash of a file's content. The file is read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Twins:
    """Numbers rows with equal keys: the second one is `key~2`.

    It keeps only keys that occur more than once, so memory does not grow with the data.
    """

    def __init__(self, repeated: Iterable[str] = ()) -> None:
        self._seen = dict.fromkeys(repeated, 0)

    def __len__(self) -> int:
        return len(self._seen)

    def repeats(self, key: str) -> bool:
        """Whether this key occurs more than once."""
        return key in self._seen

    def name(self, key: str) -> str:
        """Call once for each row, in data order."""
        if key not in self._seen:
            return key
        self._seen[key] += 1
        count = self._seen[key]
        return key if count == 1 else f"{key}~{count}"


class RepeatFinder:
    """Finds the keys that occur more than once. It holds eight bytes a row until `repeated` is called."""

    def __init__(self) -> None:
        self._digests = array("Q")

    def add(self, key: str) -> None:
        """Note one row's key."""
        self._digests.append(int(key, 16))

    def repeated(self) -> list[str]:
        """The keys seen at least twice."""
        return [f"{digest:016x}" for digest in repeated(self._digests)]


def repeated(digests: array[int]) -> set[int]:
    """The numbers that occur more than once. A large array is sorted in place, so its order is lost."""
    if len(digests) < _FEW:
        return {a for a, b in pairwise(sorted(digests)) if a == b}
    import numpy as np

    # frombuffer makes a view, so that sorting needs no second copy.
    view = np.frombuffer(digests, dtype=digests.typecode)
    view.sort()
    return set(view[1:][view[1:] == view[:-1]].tolist())


def first_ones(digests: array[int]) -> bytearray:
    """One byte for each number: 1 where it occurs for the first time, else 0. The array keeps its order."""
    if len(digests) < _FEW:
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
