"""The process that builds the first index of a large run, so that the pages of other runs stay quick meanwhile.

`python -m assay.view.index_process FOLDER` builds the index, which saves its sidecar, and prints the share of the
journal that it has read, one number a line. The server reads these lines.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Self

from assay.core.errors import AssayError
from assay.core.events import on_read
from assay.store.row_table import RowTable
from assay.usercode.child_process import python_command

# Seconds between two lines of the process.
_TELL_SECONDS = 0.2
_ERROR = "error: "


class IndexProcess:
    """A running process. `share` is how much of the journal it has read, `error` the message if it failed."""

    def __init__(self, process: Process) -> None:
        self.share = 0.0
        self.error = ""
        self._process = process
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, folder: Path) -> Self:
        """Start the process. No shell is involved: the folder is one argument."""
        command = python_command("assay.view.index_process", str(folder))
        return cls(await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL))

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._reader.done()

    async def stop(self) -> None:
        """End the process."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if text.startswith(_ERROR):
                self.error = text.removeprefix(_ERROR)
            else:
                with suppress(ValueError):
                    self.share = float(text)
        await self._process.wait()


def build(folder: Path) -> None:
    """Build the index of a run and print the progress."""
    last = time.monotonic()

    def tell(_: Path, share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELL_SECONDS:
            last = time.monotonic()
            sys.stdout.write(f"{share:.4f}\n")
            sys.stdout.flush()

    on_read.set(tell)
    try:
        RowTable(folder).close()
    except AssayError as error:
        sys.stdout.write(f"{_ERROR}{' '.join(str(error).split())}\n")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
