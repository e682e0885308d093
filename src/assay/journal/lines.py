"""The format of a journal file: lines of JSON, each with its number in the file and a checksum.

    file = JournalFile(folder / "scores.jsonl")
    offset = file.add(score)  # the byte at which the line will begin
    file.write()  # one write for all lines that were added

A line ends with its number and a checksum: `{"type":"score", ... ,"line":17,"crc":2774316583}`. The checksum is
`zlib.crc32` of all bytes of the file before the `,"crc":` of this line. It therefore also covers the lines before:
a changed, repeated, moved or missing line makes every later checksum wrong. A reader can verify a block of a
thousand lines with one call. A separate checksum per line would need one call per line, which took a fifth of the
time to open a run.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from assay.core.errors import InputError, Problem, cannot_write

# Version of the format. Format 1 had no line numbers and no checksums.
FORMAT = 2
# Interval of fdatasync. Writes do not wait for the disk, so a power cut loses at most the lines of this interval.
SYNC_SECONDS = 0.1
# Bytes to read, verify and decode at once.
BLOCK_BYTES = 1 << 20
# Bytes to read for a single line. Cases are read in order, so the next lines are usually among them.
WINDOW_BYTES = 1 << 16

_CHECKSUM_KEY = b',"crc":'
_LONGEST_CHECKSUM = len(b',"crc":4294967295}\n')  # the largest CRC-32
_LINE_TAIL = re.compile(rb',"line":(\d+),"crc":(\d+)\}\n\Z')
_encode = msgspec.json.Encoder().encode
LineT = TypeVar("LineT")


class Header(msgspec.Struct, tag="assay", tag_field="type"):
    """The first line of every journal file. `schema` is the number of the format."""

    file: str
    schema: int


class JournalFile:
    """Appends lines to one file of the journal. `size` is the file's size, where the next write begins."""

    def __init__(self, path: Path, redact: Callable[[bytes], bytes] | None = None) -> None:
        self.path = path
        # A Redactor without secrets is falsy. None saves the call for every line.
        self._redact = redact or None
        self._added: list[bytes] = []
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.size = self._next_offset = _cut_torn_line(self._fd)
        os.lseek(self._fd, self.size, os.SEEK_SET)
        self.dirty = False
        self._sync_error: OSError | None = None
        self._number = self._checksum = 0
        self._written = (0, 0)
        if self.size == 0:
            self.add(Header(file=path.stem, schema=FORMAT))
            self.write()
        else:
            check_format(path)
            self._number, self._checksum = self._written = _last_line(path, self._fd, self.size)

    def add(self, line: msgspec.Struct) -> int:
        """Add a line, with secrets redacted, to the next write. Returns the offset at which it will begin.

        If a line cannot be encoded, the lines that were added before it are dropped too: they belong to one commit.
        """
        try:
            content = _encode(line)
        except BaseException:
            self._drop_added()
            raise
        if self._redact:
            content = self._redact(content)
        begin = self._next_offset
        self._number += 1
        content = content[:-1]  # without the closing brace, which comes after the checksum
        number = b',"line":%d' % self._number
        checksum = crc32(number, crc32(content, self._checksum))
        end = b',"crc":%d}\n' % checksum
        self._checksum = crc32(end, checksum)
        self._added += (content, number, end)
        self._next_offset = begin + len(content) + len(number) + len(end)
        return begin

    def write(self) -> None:
        """Write the added lines. If that fails, none of them remains in the file. Raises StopRun."""
        # The last sync failed, so earlier lines may be lost. Further lines would hide that.
        if self._sync_error:
            self._drop_added()
            raise cannot_write(self.path, self._sync_error)
        block = b"".join(self._added)
        try:
            done = os.write(self._fd, block)
            while done < len(block):
                done += os.write(self._fd, block[done:])
        except OSError as error:
            os.ftruncate(self._fd, self.size)
            os.lseek(self._fd, self.size, os.SEEK_SET)
            self._drop_added()
            raise cannot_write(self.path, error) from error
        self.size = self._next_offset
        self._written = (self._number, self._checksum)
        self.dirty = True
        self._added.clear()

    def _drop_added(self) -> None:
        self._added.clear()
        self._next_offset = self.size
        self._number, self._checksum = self._written

    def sync(self) -> None:
        """Flush the written lines to the disk. If that fails, the next `write` raises."""
        if self.dirty:
            self.dirty = False
            try:
                os.fdatasync(self._fd)
            except OSError as error:
                self._sync_error = error

    def close(self) -> None:
        """Sync and close the file."""
        self.sync()
        os.close(self._fd)


class SyncThread:
    """Syncs files in the background, so that no reply waits for the disk."""

    def __init__(self, files: list[JournalFile]) -> None:
        self._files = files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="assay-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SYNC_SECONDS):
            for file in self._files:
                file.sync()

    def close(self) -> None:
        """End the thread. Closing a file syncs it for the last time."""
        self._stop.set()
        self._thread.join()


class LineFile:
    """Random access to the lines of a file that another process may still be writing."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._start = 0
        self._window = b""

    def line(self, offset: int) -> bytes:
        """Return the line that begins at this offset, without its line break."""
        # Cases are usually read in the order of the file, so the line may be in the bytes of the last read.
        begin = offset - self._start
        end = self._window.find(b"\n", begin) if 0 <= begin < len(self._window) else -1
        size = WINDOW_BYTES
        while end < 0:
            self._start, begin = offset, 0
            self._window = os.pread(self._fd, size, offset)
            end = self._window.find(b"\n")
            if end < 0 and len(self._window) < size:
                return self._window
            size *= 4
        return self._window[begin:end]

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_lines(path: Path, decoder: msgspec.json.Decoder[LineT]) -> Iterator[tuple[int, LineT]]:
    """Yield (offset, line) for every line after the header. Raises InputError at the first damaged line."""
    for begin, sizes, lines in read_blocks(path, decoder):
        offset = begin
        for size, line in zip(sizes, lines, strict=True):
            yield offset, line
            offset += size


def read_blocks(
    path: Path, decoder: msgspec.json.Decoder[LineT], *, verify: bool = True
) -> Iterator[tuple[int, list[int], list[LineT]]]:
    """Yield blocks of lines after the header: (offset of the block, sizes of its lines in bytes, decoded lines).

    An incomplete last line is skipped: it is still being written, or its process was killed. Raises InputError at the
    first damaged line. `verify=False` skips the checksums of a file that this process has verified before.
    """
    with path.open("rb") as file:
        header = file.readline()
        if not header.endswith(b"\n"):
            return
        _check_header(path, header)
        offset, number = len(header), 2
        # The header is part of the first block's checksum.
        checksum = 0
        block = header
        while chunk := file.read(BLOCK_BYTES):
            chunk += file.readline()
            if not chunk.endswith(b"\n"):
                chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    break
            if verify:
                block += chunk
                verified = _verify(block, checksum)
                if verified is None:
                    raise _damage(path, block, offset + len(chunk) - len(block), number, checksum)
                checksum, block = verified, b""
            raw_lines = chunk.split(b"\n")
            raw_lines.pop()
            try:
                lines: list[Any] = decoder.decode_lines(chunk)
            except msgspec.DecodeError as error:
                where = f"{path}:{number}"
                message = f"this line or one of the {len(raw_lines) - 1} after it is not a journal line"
                raise InputError(Problem(where, f"{message}: {error}")) from None
            yield offset, [len(line) + 1 for line in raw_lines], lines
            offset += len(chunk)
            number += len(raw_lines)


def check_format(path: Path) -> None:
    """Raise InputError if a file is not a journal file, or is of another format."""
    with path.open("rb") as file:
        _check_header(path, file.readline())


def other_format(where: str, written: int) -> InputError:
    """Return the error for a run in a format that this version does not read."""
    return InputError(
        Problem(
            where,
            f"the run was written in format {written}; this version of assay reads and writes format "
            f"{FORMAT}. Use the version that wrote it, or start another run with --fresh",
        )
    )


def _check_header(path: Path, first_line: bytes) -> None:
    try:
        header = msgspec.json.decode(first_line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(Problem(f"{path}:1", "this is not a journal file of assay")) from None
    if header.schema != FORMAT:
        raise other_format(f"{path}:1", header.schema)


def _verify(block: bytes, checksum: int) -> int | None:
    """Return the checksum after a block of complete lines, or None if one of them is damaged.

    `checksum` is the checksum of all bytes before the block. Only the last line's checksum is compared, because it
    covers the lines before.
    """
    end = block.rfind(_CHECKSUM_KEY, len(block) - _LONGEST_CHECKSUM)
    if end < 0:
        return None
    view = memoryview(block)
    checksum = crc32(view[:end], checksum)
    if block[end:] != b',"crc":%d}\n' % checksum:
        return None
    return crc32(view[end:], checksum)


def _damage(path: Path, block: bytes, offset: int, number: int, checksum: int) -> InputError:
    """Return the error for a block in which `_verify` found damage. It names the first damaged line."""
    if offset == 0:
        number = 1
    for content in block.split(b"\n"):
        line = content + b"\n"
        verified = _verify(line, checksum)
        if verified is None:
            break
        checksum = verified
        offset += len(line)
        number += 1
    tail = _LINE_TAIL.search(line)
    if tail is None:
        what = "is damaged: it does not end with a number and a checksum"
    elif int(tail[1]) != number:
        what = f"has the number {int(tail[1])}: lines were repeated, moved or removed"
    else:
        what = "was changed after it was written: its checksum does not match"
    return InputError(
        Problem(
            f"{path}:{number}",
            f"the line at byte {offset} {what}. Restore the file from a copy; or remove this line and all "
            f"after it with `truncate -s {offset} {path}` and repeat the command, which sends the removed "
            "requests again; or start another run with --fresh",
        )
    )


def _cut_torn_line(fd: int) -> int:
    """Remove an incomplete last line, which a kill leaves behind. Returns the size. No reader used that line."""
    size = os.fstat(fd).st_size
    end = size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
    return end


def _last_line(path: Path, fd: int, size: int) -> tuple[int, int]:
    """Return the number of the last line, and the checksum after it."""
    longest = len(b',"line":,"crc":}\n') + 2 * len(str(1 << 64))
    tail = _LINE_TAIL.search(os.pread(fd, longest, max(0, size - longest)))
    if tail is None:
        for _ in read_blocks(path, msgspec.json.Decoder()):
            pass  # raises the error with the position of the damage
        raise InputError(Problem(f"{path}:1", "this is not a journal file of assay"))
    number, checksum = int(tail[1]), int(tail[2])
    return number, crc32(b',"crc":%d}\n' % checksum, checksum)
