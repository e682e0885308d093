"""The process that searches the texts of a run, so that the pages of the server stay quick meanwhile.

    async with SearchProcess(SearchQuery(folder=..., text="Eiffel", places=("reply",))) as found:
        async for each in found:        # Hit, or float: the share of the journal that was searched

`python -m assay.view.search_process` reads the query as JSON from stdin, where no other user can see it, and prints a
JSON line for each hit and each step. Leaving the block ends the process.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from assay.core.errors import AssayError
from assay.store.search import Hit, search
from assay.usercode.child_process import python_command

# Seconds between two steps that are told.
_TELL_SECONDS = 0.2
# Bytes of a line. An excerpt has some hundred characters.
_MAX_LINE = 1 << 16


class SearchQuery(Struct, frozen=True, kw_only=True):
    """What to search for, and where to go on."""

    folder: str
    text: str
    places: tuple[str, ...]
    after: tuple[str, int] | None = None
    """Place and offset of the hit behind which to go on."""


class _Line(Struct, omit_defaults=True):
    """A line of the process: a hit, a share or an error."""

    hit: Hit | None = None
    share: float = 0.0
    error: str = ""


class SearchProcess:
    """A running search. Iterating over it raises AssayError for a query that cannot be searched."""

    def __init__(self, query: SearchQuery) -> None:
        self._query = query
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        command = python_command("assay.view.search_process")
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._query))
        self._process.stdin.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with suppress(ProcessLookupError):
            self._process.kill()
        # asyncio reads no further while its buffer is full, and `wait` waits for the end of the output.
        while await self._process.stdout.read(_MAX_LINE):
            pass
        await self._process.wait()

    async def __aiter__(self) -> AsyncIterator[Hit | float]:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = msgspec.json.decode(line, type=_Line)
            if told.error:
                raise AssayError(told.error)
            yield told.hit if told.hit is not None else told.share


def run_search(query: SearchQuery) -> None:
    """Search, and print hits and progress."""
    last = time.monotonic()

    def write(line: _Line) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()

    def tell(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELL_SECONDS:
            last = time.monotonic()
            write(_Line(share=share))

    try:
        for hit in search(Path(query.folder), query.text, query.places, tell, query.after):
            write(_Line(hit=hit))
        write(_Line(share=1.0))
    except (AssayError, OSError) as error:
        write(_Line(error=" ".join(str(error).split())))


if __name__ == "__main__":
    run_search(msgspec.json.decode(sys.stdin.buffer.read(), type=SearchQuery))
