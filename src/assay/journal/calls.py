"""Reads `calls.jsonl`: a call by its offset, a reply by its request, and the cost of all calls."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from assay.core.types import Call, Case, Usage
from assay.journal.lines import LineFile, read_blocks, read_lines

_decode_call = msgspec.json.Decoder(Call).decode


class CallReader:
    """Reads single calls by offset, the byte at which their line begins."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / "calls.jsonl")

    def call(self, offset: int) -> Call:
        """Return the call at this offset, with its reply."""
        return _decode_call(self._file.line(offset))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CallPlace(msgspec.Struct, tag="call", tag_field="type", gc=False):
    """Case index and stage of a call. To find the calls of a case, only these two fields are decoded."""

    index: int
    stage: str


call_places = msgspec.json.Decoder(CallPlace)


def calls_of_case(folder: Path, index: int) -> Iterator[Call]:
    """Yield all calls of one case in the order of the log. Reads the whole log."""
    reader = CallReader(folder)
    for offset, line in read_lines(folder / "calls.jsonl", call_places):
        if line.index == index:
            yield reader.call(offset)
    reader.close()


class ReusableCalls:
    """Finds replies of a run by case, stage and request. Memory: sixteen bytes per call, whatever its length.

    Failed calls are not found, so they are sent again. Replies that were cut at the token limit are found.
    """

    def __init__(self, folder: Path) -> None:
        # Imported here because most runs reuse nothing, and numpy takes longer to import than the whole journal.
        import numpy as np

        digests, offsets = array("Q"), array("q")
        for offset, line in read_lines(folder / "calls.jsonl", _call_keys):
            if line.response is not None:
                digests.append(_digest(line.case, line.stage, line.hash, line.n))
                offsets.append(offset)
        order = np.argsort(np.array(digests, dtype=np.uint64), kind="stable").tolist()
        self._digests = array("Q", (digests[position] for position in order))
        self._offsets = array("q", (offsets[position] for position in order))
        self._reader = CallReader(folder)

    def find(self, case: Case, stage: str, request_hash: str, n: int) -> Call | None:
        """Return the call of the same case, stage and request, or None. `n` numbers equal requests."""
        return self.find_by_key(case.key, stage, request_hash, n)

    def find_by_key(self, key: str, stage: str, request_hash: str, n: int) -> Call | None:
        """Do what `find` does, for the key of a case."""
        digest = _digest(key, stage, request_hash, n)
        position = bisect_left(self._digests, digest)
        # Two calls may share a digest of eight bytes, so the call itself is compared.
        while position < len(self._digests) and self._digests[position] == digest:
            call = self._reader.call(self._offsets[position])
            if (call.case, call.stage, call.hash, call.n) == (key, stage, request_hash, n):
                return call
            position += 1
        return None

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


class SharedReplies:
    """A run's own replies to calls at the shared endpoint, which belong to no case. Failed calls are not found."""

    def __init__(self, folder: Path) -> None:
        self._calls = ReusableCalls(folder)

    def get(self, key: tuple[str, str, int], /) -> Call | None:
        """Return the call with this (stage, hash, n), or None. `n` numbers equal requests."""
        stage, request_hash, n = key
        return self._calls.find_by_key("", stage, request_hash, n)

    def close(self) -> None:
        """Close the file."""
        self._calls.close()


def sum_spending(folder: Path) -> dict[str, int]:
    """Return calls, retries, failed calls and tokens of all starts of a run. Reused replies are not counted.

    It does not verify checksums again: opening the journal has done so.
    """
    paid = retries = failed = tokens_in = tokens_out = 0
    for _, _, lines in read_blocks(folder / "calls.jsonl", _call_costs, verify=False):
        for line in lines:
            if line.attempts == 0:
                continue  # a reply that --reuse copied from another run
            paid += 1
            retries += line.attempts - 1
            if line.response is None:
                failed += 1
            elif usage := line.response.usage:
                tokens_in += usage.input
                tokens_out += usage.output
    return {
        "calls": paid,
        "retries": retries,
        "failed": failed,
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
    }


class _NoFields(msgspec.Struct):
    """A response whose fields are skipped. It shows only whether there is one."""


class _CallKey(msgspec.Struct, tag="call", tag_field="type"):
    case: str
    stage: str
    hash: str
    n: int
    response: _NoFields | None = None


class _ResponseCost(msgspec.Struct, gc=False):
    usage: Usage | None = None


class _CallCost(msgspec.Struct, tag="call", tag_field="type", gc=False):
    response: _ResponseCost | None = None
    attempts: int = 1


_call_keys = msgspec.json.Decoder(_CallKey)
_call_costs = msgspec.json.Decoder(_CallCost)


def _digest(case: str, stage: str, request_hash: str, n: int) -> int:
    text = f"{case}/{stage}/{request_hash}/{n}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
