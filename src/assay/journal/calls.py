"""Reads `calls.jsonl`: single calls by their place, replies by their question, and what all calls cost."""

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
    """Calls by the byte at which their line begins."""

    def __init__(self, folder: Path) -> None:
        self._file = LineFile(folder / "calls.jsonl")

    def call(self, offset: int) -> Call:
        """One call with its reply."""
        return _decode_call(self._file.line(offset))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CallPlace(msgspec.Struct, tag="call", tag_field="type", gc=False):
    """The case and the stage of a call: what is decoded to find the calls of a case."""

    index: int
    stage: str


call_places = msgspec.json.Decoder(CallPlace)


def calls_of_case(folder: Path, index: int) -> Iterator[Call]:
    """All calls of one case in the order of the log. Reads the whole log."""
    reader = CallReader(folder)
    for offset, line in read_lines(folder / "calls.jsonl", call_places):
        if line.index == index:
            yield reader.call(offset)
    reader.close()


class ReusableCalls:
    """The replies of a run by case, stage and question. Sixteen bytes a call are held, whatever its length.

    Failures are not among them, so they are asked again. Replies that the token limit cut are.
    """

    def __init__(self, folder: Path) -> None:
        # Most runs reuse nothing, and numpy takes longer to import than the rest of the journal.
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
        """The call that was made for the same question of the same case."""
        return self.find_by_key(case.key, stage, request_hash, n)

    def find_by_key(self, key: str, stage: str, request_hash: str, n: int) -> Call | None:
        """The same for the key of a case."""
        digest = _digest(key, stage, request_hash, n)
        position = bisect_left(self._digests, digest)
        # Eight bytes of a hash may be those of several calls. The call itself decides.
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
    """A run's own replies to calls that belong to no case. Failures are not among them."""

    def __init__(self, folder: Path) -> None:
        self._calls = ReusableCalls(folder)

    def get(self, key: tuple[str, str, int], /) -> Call | None:
        """The reply to the n-th equal request, by (stage, hash, n)."""
        stage, request_hash, n = key
        return self._calls.find_by_key("", stage, request_hash, n)

    def close(self) -> None:
        """Close the file."""
        self._calls.close()


def sum_spending(folder: Path) -> dict[str, int]:
    """Calls, retries, failures and tokens of all starts of a run. Reused replies cost nothing.

    The lines are not verified: the journal was when it was opened.
    """
    paid = retries = failed = tokens_in = tokens_out = 0
    for _, _, lines in read_blocks(folder / "calls.jsonl", _call_costs, verify=False):
        for line in lines:
            if line.attempts == 0:
                continue
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
    """Tells whether there is a response without decoding it."""


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
