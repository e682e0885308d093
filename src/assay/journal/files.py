"""One append-only file of the journal: whole lines, written before anyone is told, synced in groups."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.core.errors import InputError, Problem, cannot_write

SCHEMA = 1
SYNC_SECONDS = 0.1
_encode = msgspec.json.Encoder().encode


class Header(msgspec.Struct, tag="assay", tag_field="type"):
    """The first line of every journal file."""

    file: str
    schema: int


class AppendFile:
    """Appends lines with one `write` each time. `size` is where the next line will begin."""

    def __init__(self, path: Path, redact: Callable[[bytes], bytes] | None = None) -> None:
        self.path = path
        self._redact = redact or None  # without secrets there is nothing to look for
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = _cut_torn_tail(self._fd)
        os.lseek(self._fd, self.size, os.SEEK_SET)
        self.dirty = False
        self._broken: OSError | None = None
        if self.size == 0:
            self.append([self.encode(Header(file=path.stem, schema=SCHEMA))])
        else:
            _check_header(path)

    def encode(self, line: msgspec.Struct) -> bytes:
        """A line as it will be written: JSON without secrets. Offsets depend on its length."""
        return self._redact(_encode(line)) if self._redact else _encode(line)

    def append(self, lines: list[bytes]) -> int:
        """Write whole lines; returns where the last of them begins. On failure nothing of them remains."""
        if self._broken:
            raise cannot_write(self.path, self._broken)
        block = b"\n".join([*lines, b""])
        self._write(block)
        self.size += len(block)
        self.dirty = True
        return self.size - len(lines[-1]) - 1

    def _write(self, block: bytes) -> None:
        try:
            done = os.write(self._fd, block)
            while done < len(block):
                done += os.write(self._fd, block[done:])
        except OSError as error:
            os.ftruncate(self._fd, self.size)
            os.lseek(self._fd, self.size, os.SEEK_SET)
            raise cannot_write(self.path, error) from error

    def sync(self) -> None:
        """Make what is written survive a power cut. Where that fails, the next line is refused."""
        if self.dirty:
            self.dirty = False
            try:
                os.fdatasync(self._fd)
            except OSError as error:
                self._broken = error

    def close(self) -> None:
        """Sync and let go."""
        self.sync()
        os.close(self._fd)


def _cut_torn_tail(fd: int) -> int:
    """A last line without its end was never told to anyone: cut it off."""
    size = os.fstat(fd).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
    return end


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        first = file.readline()
    try:
        header = msgspec.json.decode(first, type=Header)
    except msgspec.DecodeError:
        raise InputError(Problem(f"{path}:1", "this is no journal of assay")) from None
    if header.schema != SCHEMA:
        raise InputError(
            Problem(
                f"{path}:1", f"written by another version (schema {header.schema}, this one reads {SCHEMA})"
            )
        )


class Syncer:
    """A thread that syncs files in groups, so that no answer waits for the disk."""

    def __init__(self, files: list[AppendFile]) -> None:
        self._files = files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="assay-sync", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stop.wait(SYNC_SECONDS):
            for file in self._files:
                file.sync()

    def close(self) -> None:
        """Stop; the files sync themselves when they close."""
        self._stop.set()
        self._thread.join()
