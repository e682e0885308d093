"""Content keys and fingerprints: what is equal has the same name."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode
_FEW = 50_000


def fingerprint(value: Any) -> str:
    """Sixteen hex digits of any JSON-like value; the order of keys does not matter, their type does."""
    return hashlib.blake2b(_encode(_with_text_keys(value)), digest_size=8).hexdigest()


def _with_text_keys(value: Any) -> Any:
    """YAML may have keys such as `1` or `yes`."""
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else repr(key): _with_text_keys(item) for key, item in value.items()
        }
    return [_with_text_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def request_hash(request: msgspec.Struct) -> str:
    """The name of a question in the call log: 128 bits, since replies are served by it."""
    return hashlib.blake2b(_encode(request), digest_size=16).hexdigest()


def row_key(raw: bytes) -> str:
    """The key of a case: its raw bytes' name, whatever place it has in the file."""
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def file_sha256(path: Path) -> str:
    """A file by content, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Twins:
    """Numbers equal rows: the second of two equal keys is `key~2`.

    Only keys that occur more than once are held, so memory does not grow with the data.
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
    """Finds the keys that occur more than once: eight bytes a row while looking, nothing after."""

    def __init__(self) -> None:
        self._digests = array("Q")

    def add(self, key: str) -> None:
        """Note one row's key."""
        self._digests.append(int(key, 16))

    def repeated(self) -> list[str]:
        """The keys seen at least twice."""
        return [f"{digest:016x}" for digest in repeated(self._digests)]


def repeated(digests: array[int]) -> set[int]:
    """The numbers that occur more than once. Many are sorted where they are, so their order is lost."""
    if len(digests) < _FEW:
        return {a for a, b in pairwise(sorted(digests)) if a == b}
    import numpy as np

    view = np.frombuffer(digests, dtype=digests.typecode)  # a view: sorting needs no second copy
    view.sort()
    return set(view[1:][view[1:] == view[:-1]].tolist())


def first_ones(digests: array[int]) -> bytearray:
    """For each number 1 where it stands for the first time, else 0; their order stays."""
    if len(digests) < _FEW:
        places = {digest: at for at, digest in reversed(list(enumerate(digests)))}
        return bytearray(places[digest] == at for at, digest in enumerate(digests))
    import numpy as np

    view = np.frombuffer(digests, dtype=digests.typecode)
    order = np.argsort(view, kind="stable")
    in_order = view[order]
    flags = np.ones(len(digests), dtype=np.uint8)
    flags[order[1:][in_order[1:] == in_order[:-1]]] = 0
    return bytearray(flags)
