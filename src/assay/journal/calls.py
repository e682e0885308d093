"""Reads `calls.jsonl`: a call by its offset, and a reply by its request."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from assay.core.types import Call
from assay.files.plain_files import is_plain
from assay.journal.line_types import CALL_KEYS, CallKey
from assay.journal.lines import NO_LINE, DamagedLine, LineFile, read_blocks

_calls = msgspec.json.Decoder(Call)


class CallReader:
    """Reads single calls by offset, the byte at which their line begins."""

    def __init__(self, folder: Path, *, anywhere: bool = False) -> None:
        """With `anywhere`, lines are also read that are not at the place where they were written."""
        self._file = LineFile(folder / "calls.jsonl", anywhere=anywhere)

    def call(self, offset: int) -> Call:
        """Return the call at this offset, with its reply."""
        return self._file.decoded(offset, _calls)

    def line(self, offset: int) -> bytes:
        """Return the line at this offset."""
        return self._file.line(offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ReusableCalls:
    """Finds replies of a run by case, stage and request. Memory: sixteen bytes per call, whatever its length.

    Failed calls are not found, so they are sent again. Replies that were cut at the token limit are found. In a damaged
    run, every unchanged line is found, wherever it is now. A changed line is no reply: its request is sent again.
    """

    def __init__(self, folder: Path) -> None:
        # Imported here because most runs reuse nothing, and numpy takes longer to import than the whole journal.
        import numpy as np

        digests, offsets = array("Q"), array("q")

        def add(line: CallKey, offset: int) -> None:
            if line.failure is None:
                digests.append(_digest(line.case, line.stage, line.hash, line.n))
                offsets.append(offset)

        self._reader = CallReader(folder, anywhere=True)
        damage: list[DamagedLine] = []
        if is_plain(folder / "calls.jsonl"):
            for begin, sizes, lines in read_blocks(folder / "calls.jsonl", CALL_KEYS, damage=damage):
                offset = begin
                for size, line in zip(sizes, lines, strict=True):
                    add(line, offset)
                    offset += size
        for damaged in damage:
            if damaged.what == "moved":
                moved = self._reader.line(damaged.offset)
                if moved.startswith(_CALL_BEGIN):
                    with suppress(*NO_LINE):  # a forged line is no reply
                        add(CALL_KEYS.decode(moved), damaged.offset)
        order = np.argsort(np.array(digests, dtype=np.uint64), kind="stable").tolist()
        self._digests = array("Q", (digests[position] for position in order))
        self._offsets = array("q", (offsets[position] for position in order))

    def find(self, key: str, stage: str, request_hash: str, n: int) -> Call | None:
        """Return the call of the case with this key, this stage and request, or None. `n` numbers equal requests."""
        digest = _digest(key, stage, request_hash, n)
        position = bisect_left(self._digests, digest)
        # Two calls may share a digest of eight bytes, so the call itself is compared.
        while position < len(self._digests) and self._digests[position] == digest:
            call = self._reader.call(self._offsets[position])
            if (call.case, call.stage, call.hash, call.n) == (key, stage, request_hash, n):
                return call
            position += 1
        return None

    def get(self, key: tuple[str, str, int], /) -> Call | None:
        """Return the run's own call at the shared endpoint, which belongs to no case, by (stage, hash, n); or None."""
        return self.find("", *key)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


# The file's first line may have been moved among the calls.
_CALL_BEGIN = b'{"type":"call",'


def _digest(case: str, stage: str, request_hash: str, n: int) -> int:
    text = f"{case}/{stage}/{request_hash}/{n}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
