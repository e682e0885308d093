"""The process that compares large runs, so that the server stays small and its other pages stay quick meanwhile.

`python -m assay.view.compare_process` reads the names of the runs, then questions, and writes an answer to each. Both
are msgpack with its length before it. The process ends with its input, so it never outlives the server.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, Self, TypeVar

import msgspec
from msgspec import Struct

from assay.core.errors import AssayError, UsageError
from assay.store.comparison.case_pages import OpenComparison, PairSelection
from assay.store.comparison.case_table import TableSelection
from assay.usercode.child_process import python_command

T = TypeVar("T")

_LENGTH = struct.Struct(">Q")


class OverviewQuestion(Struct, frozen=True, tag=True):
    """Asks for the numbers."""


class CasesQuestion(Struct, frozen=True, tag=True):
    """Asks for all texts of the first selected case."""

    selection: PairSelection | TableSelection


class FlippedQuestion(Struct, frozen=True, tag=True):
    """Asks for the rows that flipped."""


class FindQuestion(Struct, frozen=True, tag=True):
    """Asks where a row that flipped is among the cases that changed."""

    index: int
    part: str


Question = OverviewQuestion | CasesQuestion | FlippedQuestion | FindQuestion | PairSelection | TableSelection
"""A selection of cases asks for their page."""


class _Reply(Struct, omit_defaults=True):
    """An answer, or an error. `is_usage` tells a UsageError from other errors of assay."""

    answer: msgspec.Raw = msgspec.Raw()
    error: str = ""
    is_usage: bool = False


def answer(comparison: OpenComparison, question: Question) -> Struct:
    """Return the answer of a comparison to a question."""
    match question:
        case OverviewQuestion():
            return comparison.overview
        case PairSelection():
            return comparison.page(question)
        case TableSelection():
            return comparison.table(question)
        case CasesQuestion():
            return comparison.cases(question.selection)
        case FlippedQuestion():
            return comparison.flipped().pack()
        case FindQuestion():
            return comparison.find(question.index, question.part)


class ComparisonProcess:
    """A comparison in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, names: Sequence[str]) -> Self:
        """Start the process. No shell is involved, and the names are no arguments."""
        command = python_command("assay.view.compare_process")
        # Without a limit: at its limit asyncio stops to read, and then does not notice that the process has ended.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=sys.maxsize
        )
        started = cls(process)
        started._send(msgspec.msgpack.encode(list(names)))
        return started

    async def ask(self, question: Question, kind: type[T]) -> T:
        """Return the answer to a question. One question at a time. Raises AssayError as the comparison did."""
        self._send(msgspec.msgpack.encode(question))
        assert self._process.stdout is not None
        try:
            (length,) = _LENGTH.unpack(await self._process.stdout.readexactly(_LENGTH.size))
            reply = msgspec.msgpack.decode(await self._process.stdout.readexactly(length), type=_Reply)
        except asyncio.IncompleteReadError:
            raise AssayError("the process that compares these runs has ended; load the page again") from None
        if reply.error:
            raise UsageError(reply.error) if reply.is_usage else AssayError(reply.error)
        return msgspec.msgpack.decode(reply.answer, type=kind)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, for example because the system had no memory left."""
        return self._process.returncode is not None

    async def end(self) -> None:
        """End the process. A question that waits for its answer gets an error."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        # A message has a few hundred bytes, so the pipe always has room for it. To a process that has ended it is lost.
        self._process.stdin.write(_LENGTH.pack(len(message)) + message)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Compare the runs of the first message, and answer questions until the input ends."""
    names = msgspec.msgpack.decode(_read(source) or b"\x90", type=list[str])
    comparison: OpenComparison | None = None
    while (message := _read(source)) is not None:
        try:
            comparison = comparison or OpenComparison(names)
            question: Question = msgspec.msgpack.decode(message, type=Question)
            reply = _Reply(answer=msgspec.Raw(msgspec.msgpack.encode(answer(comparison, question))))
        except (AssayError, OSError) as error:
            reply = _Reply(error=str(error), is_usage=isinstance(error, UsageError))
        encoded = msgspec.msgpack.encode(reply)
        sink.write(_LENGTH.pack(len(encoded)) + encoded)
        sink.flush()


def _read(source: BinaryIO) -> bytes | None:
    """Return the next message; None at the end of the input."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return source.read(_LENGTH.unpack(head)[0])


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
