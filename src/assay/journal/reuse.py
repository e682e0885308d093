"""Replies of another run, found by content: sixteen bytes a call, whatever their length."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from pathlib import Path

import msgspec

from assay.core.types import Call, Case
from assay.journal.reader import CallReader
from assay.journal.scan import decoded


class _Something(msgspec.Struct):
    """Whether there is a response, without decoding it."""


class _Line(msgspec.Struct, tag="call", tag_field="type"):
    case: str
    stage: str
    hash: str
    n: int
    response: _Something | None = None


_decoder = msgspec.json.Decoder(_Line)


class ReusableCalls:
    """The complete calls of a run: failures are asked again, replies cut by the token limit are kept."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        digests, offsets = array("Q"), array("q")
        for offset, line in decoded(folder / "calls.jsonl", set(), _decoder):
            if line.response is not None:
                digests.append(_digest(line.case, line.stage, line.hash, line.n))
                offsets.append(offset)
        order = np.argsort(np.array(digests, dtype=np.uint64), kind="stable").tolist()
        self._digests = array("Q", (digests[at] for at in order))
        self._offsets = array("q", (offsets[at] for at in order))
        self._reader = CallReader(folder)

    def find(self, case: Case, stage: str, name: str, n: int) -> Call | None:
        """The call another run made for the same question of the same case."""
        return self.named(case.key, stage, name, n)

    def named(self, key: str, stage: str, name: str, n: int) -> Call | None:
        """The same by the key of the case alone."""
        digest = _digest(key, stage, name, n)
        at = bisect_left(self._digests, digest)
        while at < len(self._digests) and self._digests[at] == digest:
            call = self._reader.call(self._offsets[at])
            if call and (call.case, call.stage, call.hash, call.n) == (key, stage, name, n):
                return call
            at += 1
        return None

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


class CommonReplies:
    """A run's own replies to what belongs to no case. Failures are not among them: no try owns up to them."""

    def __init__(self, folder: Path) -> None:
        self._calls = ReusableCalls(folder)

    def get(self, key: tuple[str, str, int], /) -> Call | None:
        """The reply to the n-th issue of a request, by (stage, hash, n)."""
        stage, name, n = key
        return self._calls.named("", stage, name, n)

    def close(self) -> None:
        """Let go of the file."""
        self._calls.close()


def _digest(case: str, stage: str, name: str, n: int) -> int:
    return int.from_bytes(blake2b(f"{case}/{stage}/{name}/{n}".encode(), digest_size=8).digest(), "little")
