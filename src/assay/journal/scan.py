"""What a journal says about its cases: arrays by index, no set or dict of all keys.

Seventeen bytes a case are held: how it ended and where its end stands, for asking and for scoring.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.core.errors import Problem
from assay.core.types import ASK, NO_CASE, End, Failure, ScoreStatus, Status, Usage

_CHUNK = 1 << 20
_CODES = {"ok": 1, "subject_error": 2, "infra_error": 3}
OK, SUBJECT_ERROR, INFRA_ERROR = 1, 2, 3


_Place = Annotated[int, msgspec.Meta(ge=0)]


class _Commit(msgspec.Struct, gc=False):
    """Everything a commit must have: what passes here can be read later."""

    try_: int = msgspec.field(default=1, name="try")
    status: Status = "ok"
    lines: list[int] = []
    failure: Failure | None = None
    usage: Usage | None = None


class _EndLine(msgspec.Struct, tag="end", tag_field="type", gc=False):
    """Raw fields must be there and cost no decoding."""

    index: _Place
    case: msgspec.Raw
    set: msgspec.Raw
    subject: msgspec.Raw
    stage: str
    try_: int = msgspec.field(name="try")
    status: Status
    lines: list[int]
    failure: Failure | None = None
    usage: Usage | None = None


class _RecordLine(msgspec.Struct, tag="record", tag_field="type", gc=False):
    index: _Place
    case: msgspec.Raw
    try_: int = msgspec.field(name="try")
    end: _Commit | None = None


class _ScoreLine(msgspec.Struct, tag="score", tag_field="type", gc=False):
    index: _Place
    case: msgspec.Raw
    scorer: str
    status: ScoreStatus = "scored"
    value: float | None = None
    end: _Commit | None = None


class CallLine(msgspec.Struct, tag="call", tag_field="type", gc=False):
    """As much of a call as the scan needs."""

    index: Annotated[int, msgspec.Meta(ge=NO_CASE)]
    stage: str


class _Spent(msgspec.Struct, gc=False):
    usage: Usage | None = None


class _PaidLine(msgspec.Struct, tag="call", tag_field="type", gc=False):
    response: _Spent | None = None
    attempts: int = 1


_Line = _EndLine | _RecordLine | _ScoreLine | CallLine
_decoder = msgspec.json.Decoder(_Line)
call_decoder = msgspec.json.Decoder(CallLine)
_paid_decoder = msgspec.json.Decoder(_PaidLine)


class Stage:
    """One stage of all cases: a code and an offset each."""

    def __init__(self) -> None:
        self.codes = bytearray()
        self.offsets = array("q")

    def set(self, index: int, status: str, offset: int) -> None:
        """Note how a case ended; a later end replaces an earlier one."""
        if index == len(self.codes):
            self.codes.append(_CODES[status])
            self.offsets.append(offset)
            return
        if index > len(self.codes):
            missing = index + 1 - len(self.codes)
            self.codes.extend(bytes(missing))
            self.offsets.extend([-1] * missing if missing < 64 else array("q", [-1]) * missing)
        self.codes[index] = _CODES[status]
        self.offsets[index] = offset

    def code(self, index: int) -> int:
        """0 while the case has not ended."""
        return self.codes[index] if index < len(self.codes) else 0

    def forget(self, index: int) -> None:
        """The case counts as unfinished."""
        if index < len(self.codes):
            self.codes[index] = 0


class Index:
    """The journal's cases by stage, the tries of those that ended more than once, and bad lines."""

    def __init__(self, stages: list[str]) -> None:
        self.stages = {stage: Stage() for stage in stages}
        self._ask = self.stages[ASK]
        self.tries: dict[int, int] = {}
        self.problems: list[Problem] = []

    @property
    def ask(self) -> Stage:
        """The stage everything else builds on."""
        return self._ask

    def end(self, end: End, offset: int) -> None:
        """Take in an end that was just written."""
        self._commit(end.stage, end.index, end, offset)

    def _commit(self, name: str, index: int, commit: Any, offset: int) -> None:
        """A score counts only for the try that it judged."""
        stage = self.stages.get(name)
        if stage is None:
            return
        if name != ASK:
            if self.ask.code(index) and commit.try_ == self.tries.get(index, 1):
                stage.set(index, commit.status, offset)
            return
        stage.set(index, commit.status, offset)
        if commit.try_ > 1 or commit.status != "ok":
            self.tries[index] = commit.try_
            for other in self.stages.values():
                if other is not stage:
                    other.forget(index)

    def scan(self, path: Path) -> None:
        """Read records or scores from their start. A commit counts if every line that it names is good."""
        bad: set[int] = set()
        loose = _Loose()
        for begin, values in decoded_blocks(path, bad):
            offset = begin
            for size, line in values:
                if line is not None and not self._plain(line, offset):
                    self._take(line, offset, loose, bad)
                offset += size
        self.name(path, bad, "is damaged or relies on one that is; its case counts as unfinished")

    def _plain(self, line: Any, offset: int) -> bool:
        """Take a stage's only line, of a first try that went well: nearly all are, so this is short."""
        kind = type(line)
        commit = None if kind is _EndLine else line.end
        if commit is None or commit.lines or commit.try_ != 1 or commit.status != "ok":
            return False
        index = line.index
        stage = self._ask if kind is _RecordLine else self.stages.get(line.scorer)
        if stage is None or (kind is _ScoreLine and not self._ask.code(index)):
            return True
        if index in self.tries:
            return False
        codes = stage.codes
        if index == len(codes):
            codes.append(OK)
            stage.offsets.append(offset)
        else:
            stage.set(index, "ok", offset)
        return True

    def _take(self, line: Any, offset: int, loose: _Loose, bad: set[int]) -> None:
        """Any other line."""
        kind = type(line)
        commit = line if kind is _EndLine else line.end
        if commit is None:
            loose.add(line.index, offset)
        elif commit.lines and not loose.holds(line.index, commit.lines):
            bad.add(offset)
        else:
            stage = ASK if kind is _RecordLine else line.scorer if kind is _ScoreLine else line.stage
            self._commit(stage, line.index, commit, offset)

    def name(self, path: Path, bad: set[int], what: str) -> None:
        """Say of every bad line where it is."""
        self.problems += [Problem(str(path), f"the line at byte {offset} {what}") for offset in sorted(bad)]


class _Loose:
    """Lines whose end has not come yet. Mostly an end follows its lines at once: that costs no look-up."""

    def __init__(self) -> None:
        self._index = -1
        self._run: list[int] = []
        self._others: dict[int, list[int]] = {}

    def add(self, index: int, offset: int) -> None:
        """One line that may be named by an end."""
        if index == self._index:
            self._run.append(offset)
            return
        if self._run:
            self._others.setdefault(self._index, []).extend(self._run)
        self._index, self._run = index, [offset]

    def holds(self, index: int, lines: list[int]) -> bool:
        """Whether an end's lines are all there; they are taken out."""
        if index == self._index and lines == self._run:
            self._index, self._run = -1, []
            return True
        if index == self._index:
            self._others.setdefault(index, []).extend(self._run)
            self._index, self._run = -1, []
        return set(lines) <= set(self._others.pop(index, ()))


def decoded(
    path: Path, bad: set[int], decoder: msgspec.json.Decoder[Any] = _decoder
) -> Iterator[tuple[int, Any]]:
    """(offset, line) of every good line; offsets of damaged ones go to `bad`."""
    for offset, values in decoded_blocks(path, bad, decoder):
        at = offset
        for size, line in values:
            if line is not None:
                yield at, line
            at += size


def decoded_blocks(
    path: Path, bad: set[int], decoder: msgspec.json.Decoder[Any] = _decoder
) -> Iterator[tuple[int, Iterator[tuple[int, Any]]]]:
    """Blocks of lines: where they begin, and (length, line) of each; a damaged line is None."""
    for begin, block in blocks(path):
        raw = block.split(b"\n")
        raw.pop()
        sizes = [len(line) + 1 for line in raw]
        values = _whole(block, len(raw), decoder)
        if values is None:
            values = [_one(line, decoder) for line in raw]
            offsets = accumulate(sizes, initial=begin)
            bad.update(at for at, value in zip(offsets, values, strict=False) if value is None)
        yield begin, zip(sizes, values, strict=True)


def _whole(block: bytes, count: int, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """The lines of a block without damage. Text that is skipped in decoding must be text, too."""
    try:
        if not block.isascii():
            block.decode()
        values: list[Any] = decoder.decode_lines(block)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return values if len(values) == count else None


def spent(calls: Path) -> dict[str, int]:
    """What all starts of a run paid: calls, retries, failures, tokens. Reused replies cost nothing."""
    paid = retries = failed = tokens_in = tokens_out = 0
    for _, line in decoded(calls, set(), _paid_decoder):
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


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines) of a journal file after its header."""
    with path.open("rb") as file:
        offset = len(file.readline())
        while chunk := file.read(_CHUNK):
            chunk += file.readline()
            if not chunk.endswith(b"\n"):
                chunk = chunk[: chunk.rfind(b"\n") + 1]
            yield offset, chunk
            offset += len(chunk)


def _one(line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        line.decode()
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
