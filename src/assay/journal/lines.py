"""The format of a journal file: lines of JSON, each with its place in the file and a checksum.

    file = JournalFile(folder / "scores.jsonl", run="5f0c")
    offset, score = file.add(score)  # the byte at which the line will begin, and the line without secrets
    file.write()  # one write for all lines that were added

A line ends with the byte at which it begins and a checksum: `{"type":"score", ... ,"at":1907,"crc":"a55c19f7"}`. The
checksum is the CRC-32 of the line up to the text `,"crc":`. It starts from a value that depends on the run and on the
name of the file, so a line of another run or of another file does not match. Every line can be verified alone: a
changed line has a wrong checksum, and a line that was copied, moved, or displaced by a missing line has a wrong place.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

import msgspec

from assay.core.errors import DamagedRun, InputError, Problem, cannot_log, cannot_write
from assay.core.types import Commit
from assay.files.plain_files import is_plain, open_plain, open_plain_file, read_plain
from assay.files.write import sync_data
from assay.journal.disk_reserve import DiskReserve

# Version of the format. Format 1 had no checksums; format 2 had line numbers and a checksum over the file so far.
FORMAT = 3
# Interval of fdatasync. Writes do not wait for the disk, so a power cut loses at most the lines of this interval.
SYNC_SECONDS = 0.1
# In the name of an imported run's folder, after its suite. No suite looks for runs with such a name, so an imported run
# is never continued.
IMPORTED = ".imported"
# Damaged lines that messages name. A missing line displaces all lines after it.
MAX_LISTED = 5
# Bytes to read, verify and decode at once. So many stay in the cache of a core.
BLOCK_BYTES = 1 << 17
# Bytes to read for a line after the last one. Cases are usually read in order, so the next lines are among them.
WINDOW_BYTES = 1 << 16
# Bytes to read for a line elsewhere in the file. Most lines are shorter.
_JUMP_BYTES = 1 << 12

# The last bytes of a line without its line break. Their number is fixed, so no search is needed to verify a line.
_TAIL = len(',"crc":"00000000"}')
_LINE_END = re.compile(rb',"at":(\d+),"crc":"([0-9a-f]{8})"\}\Z')
_encode = msgspec.json.Encoder().encode
NO_LINE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for JSON that is not the line it expects: not UTF-8, wrong types, or nested too deep."""
LineT = TypeVar("LineT")
StructT = TypeVar("StructT", bound=msgspec.Struct)


class Header(msgspec.Struct, tag="assay", tag_field="type"):
    """The first line of every journal file. `schema` is the number of the format, `run` the id in `run.json`."""

    file: str
    schema: int
    run: str = ""


class DamagedLine(NamedTuple):
    """A line that is not as it was written, or not where it was written. `number` counts from 1."""

    path: Path
    number: int
    offset: int
    what: str
    """`changed`, `moved` (or a copy, or displaced because bytes before it are missing), `foreign`, or `forged`."""
    why: str = ""
    """What is wrong with the content of a `forged` line: its checksum matches, but no suite writes such a line."""

    @property
    def problem(self) -> Problem:
        """The damage as a sentence, with the place of the line."""
        sentences = {
            "changed": "was changed after it was written: its checksum does not match",
            "moved": "is not at its place: lines were repeated, moved or removed",
            "foreign": "belongs to another run or to another file",
            "forged": f"has a matching checksum, but assay does not write such a line: {self.why}",
        }
        return Problem(f"{self.path}:{self.number}", f"the line at byte {self.offset} {sentences[self.what]}")

    def __str__(self) -> str:
        return str(self.problem)


def seed(run: str, file: str) -> int:
    """Return the value from which the checksums of a file start."""
    return crc32(f"{run}/{file}".encode())


def sealed(content: bytes, offset: int, start: int) -> bytes:
    """Return an encoded object as a journal line: with its place, its checksum and a line break."""
    content = b'%b,"at":%d' % (content[:-1], offset)
    return b'%b,"crc":"%08x"}\n' % (content, crc32(content, start))


def is_intact(line: bytes, offset: int, start: int) -> bool:
    """Return whether a line, without its line break, is as it was written at this offset."""
    checksum = b',"crc":"%08x"}' % crc32(line[:-_TAIL], start)
    return line[-_TAIL:] == checksum and line.endswith(b',"at":%d' % offset, 0, -_TAIL)


class UnchangedLine(NamedTuple):
    """A line as it was written: the offset at which it was written, and its JSON without place and checksum."""

    place: int
    content: bytes


def unchanged_line(line: bytes, start: int) -> UnchangedLine | None:
    """Return place and content of a line, without its line break, wherever it is now; None for a changed line."""
    end = _LINE_END.search(line)
    if end is None or crc32(line[: end.end(1)], start) != int(end[2], 16):
        return None
    return UnchangedLine(int(end[1]), line[: end.start()] + b"}")


def line_content(line: bytes, offset: int) -> bytes:
    """Return the JSON of an intact line, without its place and checksum. `offset` is its place."""
    return line[: -(len(',"at":') + len(str(offset)) + _TAIL)] + b"}"


class JournalFile:
    """Appends lines to one file of the journal. `size` is the file's size, where the next write begins.

    `run` is the id of the run. It is needed for a new file only; an existing file has it in its header.
    """

    def __init__(
        self,
        path: Path,
        redact: Callable[[bytes], bytes] | None = None,
        run: str = "",
        reserve: DiskReserve | None = None,
    ) -> None:
        self.path = path
        self.name = path.name
        # A Redactor without secrets is falsy. None saves the call for every line.
        self._redact = redact or None
        self._reserve = reserve
        self._added: list[bytes] = []
        try:
            self._fd = open_plain(path, os.O_RDWR | os.O_CREAT)
            self.size = self._next_offset = _cut_torn_line(self._fd)
        except OSError as error:
            raise cannot_write(path, error) from error
        os.lseek(self._fd, self.size, os.SEEK_SET)
        self.dirty = False
        self._sync_error: OSError | None = None
        if self.size == 0:
            self._seed = seed(run, path.stem)
            self.add(Header(file=path.stem, schema=FORMAT, run=run))
            self.write()
        else:
            self._seed = seed(read_header(path, run).run, path.stem)

    def add(self, line: StructT, commit: Commit | None = None) -> tuple[int, StructT]:
        """Add a line, with secrets redacted, to the next write. `commit` is written as its field `end`.

        Returns the offset at which it will begin, and the line as readers will get it: the same object, without
        `commit`, unless it contained a secret.

        If a line cannot be encoded, the caller drops the lines before it that belong to the same commit.
        """
        content = _encode(line)
        if commit is not None:
            # `end` is the last field of records and scores. A copy of the struct would take five times as long.
            content = b'%b,"end":%b}' % (content[:-1], _encode(commit))
        if self._redact and (cleaned := self._redact(content)) is not content:
            content = cleaned
            line = msgspec.json.decode(content, type=type(line))
        begin = self._next_offset
        # `sealed`, written in place: this runs for every line of a run.
        content = b'%b,"at":%d' % (content[:-1], begin)
        block = b'%b,"crc":"%08x"}\n' % (content, crc32(content, self._seed))
        self._added.append(block)
        self._next_offset = begin + len(block)
        return begin, line

    def add_encoded(self, content: bytes) -> int:
        """Add a line that is JSON already, without place and checksum. Secrets are not redacted."""
        begin = self._next_offset
        line = sealed(content, begin, self._seed)
        self._added.append(line)
        self._next_offset = begin + len(line)
        return begin

    def write(self) -> None:
        """Write the added lines. If that fails, none of them remains in the file. Raises StopRun.

        On a full disk the lines go into the room that the run has reserved. Its `stop` then says that the run must end.
        """
        # The last sync failed, so earlier lines may be lost. Further lines would hide that.
        if self._sync_error:
            self._drop_added()
            raise cannot_log(self.path, self._sync_error)
        if not self._added:
            return
        block = b"".join(self._added)
        try:
            written = os.write(self._fd, block)
            while written < len(block):
                written += os.write(self._fd, block[written:])
        except OSError as error:
            self._write_into_room(block, error)
        self.size = self._next_offset
        self.dirty = True
        self._added.clear()

    def _write_into_room(self, block: bytes, error: OSError) -> None:
        """Write a block that did not fit on the disk into the reserved room. Raises StopRun if there is none."""
        try:
            self._remove_torn_block()
            if self._reserve is None or not self._reserve.give_up(self.path, error):
                raise error
            try:
                written = 0
                while written < len(block):
                    written += os.write(self._fd, block[written:])
            except OSError:
                self._remove_torn_block()
                raise
        except OSError as last:
            self._drop_added()
            raise cannot_log(self.path, last) from error

    def _remove_torn_block(self) -> None:
        os.ftruncate(self._fd, self.size)
        os.lseek(self._fd, self.size, os.SEEK_SET)

    def mark(self) -> tuple[int, int]:
        """Return the present end of the added lines, for `drop`."""
        return len(self._added), self._next_offset

    def drop(self, mark: tuple[int, int]) -> None:
        """Forget the lines that were added since the mark."""
        count, self._next_offset = mark
        del self._added[count:]

    def _drop_added(self) -> None:
        self._added.clear()
        self._next_offset = self.size

    def sync(self) -> None:
        """Flush the written lines to the disk. If that fails, the next `write` raises."""
        if self.dirty:
            self.dirty = False
            try:
                sync_data(self._fd)
            except OSError as error:
                self._sync_error = error

    def close(self) -> None:
        """Sync and close the file."""
        self.sync()
        os.close(self._fd)
        self._fd = -1  # the number may belong to another file soon


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
    """Random access to the lines of a file that another process may still be writing. Every line is verified.

    With `anywhere`, an unchanged line is also returned if it is not at its place.
    """

    def __init__(self, path: Path, *, anywhere: bool = False) -> None:
        self._path = path
        self._anywhere = anywhere
        self._fd = -1  # opened by the first `line`: an empty or missing file has none
        self._seed = 0
        self._start = 0
        self._window = b""

    def line(self, offset: int) -> bytes:
        """Return the line that begins at this offset, without its line break. Raises DamagedRun for a changed line."""
        if self._fd < 0:
            self._fd = open_plain(self._path)
            self._seed = seed(read_header(self._path, damage=[]).run, self._path.stem)
        # Cases are usually read in the order of the file, so the line may be in the bytes of the last read.
        begin = offset - self._start
        end = self._window.find(b"\n", begin) if 0 <= begin < len(self._window) else -1
        size = WINDOW_BYTES if 0 <= begin <= len(self._window) else _JUMP_BYTES
        while end < 0:
            self._start, begin = offset, 0
            self._window = os.pread(self._fd, size, offset)
            end = self._window.find(b"\n")
            if end < 0 and len(self._window) < size:
                end = len(self._window)
                break
            size *= 4
        line = self._window[begin:end]
        if not is_intact(line, offset, self._seed):
            if self._anywhere and unchanged_line(line, self._seed) is not None:
                return line
            number = line_number(self._path, offset)
            # The index promised this line. Without its sidecar, the next reader verifies every line, and the next
            # start of the run finds the damage and repairs it.
            forget_sidecars(self._path.parent)
            raise damage_error([DamagedLine(self._path, number, offset, _what(line, self._seed))])
        return line

    def decoded(self, offset: int, decoder: msgspec.json.Decoder[LineT]) -> LineT:
        """Return the line that begins at this offset, decoded. Raises DamagedRun for a changed or forged line."""
        content = self.line(offset)
        try:
            return decoder.decode(content)
        except NO_LINE as error:
            raise self.forged(offset, error) from None

    def forged(self, offset: int, error: Exception) -> DamagedRun:
        """Return the error for an intact line whose content is none that assay writes."""
        number = line_number(self._path, offset)
        return damage_error([DamagedLine(self._path, number, offset, "forged", str(error))])

    def block(self, offset: int) -> tuple[list[int], bytes] | None:
        """Return whole lines from this offset on: their sizes, and their bytes. None if no intact line is there.

        Only after `line`, which opens the file. A changed line is not told here: `line` raises for it.
        """
        chunk = os.pread(self._fd, WINDOW_BYTES, offset)
        chunk = chunk[: chunk.rfind(b"\n") + 1]
        lines = chunk.split(b"\n")
        lines.pop()
        sizes = [len(line) + 1 for line in lines]
        return (sizes, chunk) if lines and _all_intact(lines, sizes, offset, self._seed) else None

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # Who reads some cases of a run, in a notebook or for a page, has no moment at which to close their files.
        self.close()


def read_lines(path: Path, decoder: msgspec.json.Decoder[LineT]) -> Iterator[tuple[int, LineT]]:
    """Yield (offset, line) for every line after the header. Raises DamagedRun at the first damaged line."""
    for begin, sizes, lines in read_blocks(path, decoder):
        offset = begin
        for size, line in zip(sizes, lines, strict=True):
            yield offset, line
            offset += size


def read_blocks(
    path: Path,
    decoder: msgspec.json.Decoder[LineT],
    *,
    run: str = "",
    start: int = 0,
    stop: int | None = None,
    damage: list[DamagedLine] | None = None,
) -> Iterator[tuple[int, list[int], list[LineT]]]:
    """Yield blocks of lines after the header: (offset of the block, sizes of its lines in bytes, decoded lines).

    `run` is the id that the header must have, if it is not empty. `start` and `stop` are offsets of lines; lines that
    begin at `stop` or later are not read. An incomplete last line is skipped: it is still being written, or its process
    was killed. Damaged lines are added to `damage` and skipped; without `damage`, the first one raises DamagedRun.
    """
    with open_plain_file(path) as file:
        header = file.readline()
        if not header.endswith(b"\n"):
            return
        checksum_start = seed(read_header(path, run, damage).run, path.stem)
        offset = max(start, len(header))
        file.seek(offset)
        while stop is None or offset < stop:
            chunk = file.read(BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - offset))
            if not chunk:
                return
            chunk += file.readline()
            is_last = not chunk.endswith(b"\n")
            if is_last:
                chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    return
            raw_lines = chunk.split(b"\n")
            raw_lines.pop()
            sizes = [len(line) + 1 for line in raw_lines]
            decoded: list[LineT] | None = None
            if _all_intact(raw_lines, sizes, offset, checksum_start):
                with suppress(*NO_LINE):  # a forged line: below, each line is decoded alone
                    decoded = decoder.decode_lines(chunk)
            if decoded is not None:
                yield offset, sizes, decoded
            else:
                begin, number = offset, line_number(path, offset)
                for line, size in zip(raw_lines, sizes, strict=True):
                    found = _decoded(path, number, begin, line, decoder, checksum_start)
                    if not isinstance(found, DamagedLine):
                        yield begin, [size], [found]
                    elif damage is None:
                        raise damage_error([found])
                    else:
                        damage.append(found)
                    begin += size
                    number += 1
            if is_last:
                # The rest of the line may have been written since. Reading on would begin in the middle of it.
                return
            offset += len(chunk)


def _decoded(
    path: Path,
    number: int,
    offset: int,
    line: bytes,
    decoder: msgspec.json.Decoder[LineT],
    checksum_start: int,
) -> LineT | DamagedLine:
    """Return a line without its line break, decoded; or its damage."""
    if not is_intact(line, offset, checksum_start):
        return DamagedLine(path, number, offset, _what(line, checksum_start))
    try:
        return decoder.decode(line)
    except NO_LINE as error:
        return DamagedLine(path, number, offset, "forged", str(error))


def is_unchanged(path: Path, end: int, run: str) -> bool:
    """Return whether all lines before the offset `end` are as they were written. Decodes none of them.

    For readers that cannot verify lines themselves. `end` is the end of a line, `run` the id in `run.json`.
    """
    if not end:
        return True
    start = seed(run, path.stem)
    offset = 0
    with open_plain_file(path) as file:
        while offset < end:
            chunk = file.read(min(BLOCK_BYTES, end - offset)) + file.readline()
            lines = chunk.split(b"\n")
            if lines.pop() or not lines:
                return False  # the file is shorter than it was, or the line at `end` has no line break
            sizes = [len(line) + 1 for line in lines]
            if not _all_intact(lines, sizes, offset, start):
                return False
            offset += len(chunk)
    return offset == end


def copy_intact_lines(path: Path, target: Path) -> None:
    """Copy the lines of a file that are as they were written, and where they were written."""
    start = seed(run_id(path.parent), path.stem)
    offset = 0
    with open_plain_file(path) as file, target.open("wb") as copy:
        for line in file:
            if line.endswith(b"\n") and is_intact(line[:-1], offset, start):
                copy.write(line)
            offset += len(line)


def read_header(path: Path, run: str = "", damage: list[DamagedLine] | None = None) -> Header:
    """Return the first line of a journal file. Raises InputError if it is of another format, DamagedRun if damaged.

    `run` is the id that it must have, if it is not empty. With `damage`, a damaged header is added to that list, and
    the id comes from `run` or from `run.json`.
    """
    line, header = _first_line(path)
    if header is not None and header.schema != FORMAT and b'"crc":"' not in line:
        raise other_format(f"{path}:1", header.schema)
    if header is None or not is_intact(line, 0, seed(header.run, header.file)):
        what = "changed"
    elif header.file != path.stem or (run and header.run != run):
        what = "foreign"
    else:
        return header
    run = run or run_id(path.parent) or _id_beside(path)
    if unchanged_line(line, seed(run, path.stem)) is not None:
        what = "moved"  # the header was removed, and this is another line
    damaged = DamagedLine(path, 1, 0, what)
    if damage is None:
        raise damage_error([damaged])
    damage.append(damaged)
    return Header(file=path.stem, schema=FORMAT, run=run)


def _first_line(path: Path) -> tuple[bytes, Header | None]:
    """Return the first line of a file, without its line break, and the header in it; None if it is no header."""
    with open_plain_file(path) as file:
        line = file.readline().rstrip(b"\n")
    try:
        return line, msgspec.json.decode(line, type=Header)
    except NO_LINE:
        return line, None


def _id_beside(path: Path) -> str:
    """Return the id in the first line of another file of the journal, if `run.json` and the file's own are damaged."""
    for other in filter(is_plain, sorted(path.parent.glob("*.jsonl"))):
        line, header = _first_line(other)
        if header is not None and is_intact(line, 0, seed(header.run, header.file)):
            return header.run
    return ""


class _RunId(msgspec.Struct):
    id: str = ""


def run_id(folder: Path) -> str:
    """Return the id in `run.json`, or an empty text if the file is missing or damaged."""
    try:
        return msgspec.json.decode(read_plain(folder / "run.json"), type=_RunId).id
    except (OSError, DamagedRun, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def other_format(where: str, written: int) -> InputError:
    """Return the error for a run in a format that this version does not read."""
    return InputError(
        Problem(
            where,
            f"the run was written in format {written}; this version of assay reads and writes format "
            f"{FORMAT}. Use the version that wrote it, or start another run with --fresh",
        )
    )


def damage_error(damage: list[DamagedLine]) -> DamagedRun:
    """Return the error for damaged lines of a run, with what to do. It names the first lines only."""
    problems = [line.problem for line in damage[:MAX_LISTED]]
    if len(damage) > MAX_LISTED:
        more = len(damage) - MAX_LISTED
        problems.append(Problem(str(damage[0].path.parent), f"{more:,} more lines are damaged"))
    last = problems.pop()
    return DamagedRun([*problems, Problem(last.where, f"{last.message}. {advice(damage[0].path.parent)}")])


def advice(folder: Path) -> str:
    """Return what a user can do about a damaged journal."""
    if is_imported(folder):
        return "The run was imported: delete its folder and import the file again"
    return (
        "Repeat the command of the run: it keeps the damaged file, and runs or scores again only the cases of "
        f"changed or lost lines. `assay check {folder}` lists all damage"
    )


def is_imported(folder: Path) -> bool:
    """Return whether a run folder has the name of an imported run. Such a run cannot be continued."""
    return f"{IMPORTED}-" in folder.name


def forget_sidecars(folder: Path) -> None:
    """Remove the sidecars of the index, so that the next reader verifies every line of the journal."""
    with suppress(OSError):  # a folder that cannot be written
        for path in folder.glob("*.bin"):
            path.unlink(missing_ok=True)


def _all_intact(lines: list[bytes], sizes: list[int], offset: int, start: int) -> bool:
    """Return whether all lines of a block are as they were written. Faster than `is_intact` for each of them."""
    offsets = list(accumulate(sizes, initial=offset))
    end = offsets.pop()
    digits = len(str(offset))
    if len(str(end)) > digits:
        # The lines have places of different lengths. That happens once in each power of ten.
        places = zip(lines, offsets, strict=True)
        return all(is_intact(line, place, start) for line, place in places)
    tail = len(',"at":') + digits + _TAIL
    expected = [0] * (2 * len(lines))
    expected[::2] = offsets
    expected[1::2] = [crc32(line[:-_TAIL], start) for line in lines]
    # One operation for the ends of all lines is faster than one for each.
    ends = (b',"at":%d,"crc":"%08x"}' * len(lines)) % tuple(expected)
    return b"".join([line[-tail:] for line in lines]) == ends


def _what(line: bytes, start: int) -> str:
    return "changed" if unchanged_line(line, start) is None else "moved"


def line_number(path: Path, offset: int) -> int:
    """Return the number, from 1, of the line at this offset. Reads the file up to there."""
    number = 1
    with open_plain_file(path) as file:
        while offset > 0 and (block := file.read(min(BLOCK_BYTES, offset))):
            number += block.count(b"\n")
            offset -= len(block)
    return number


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
