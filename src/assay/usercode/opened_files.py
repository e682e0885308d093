"""The files that the user's code opens for reading while a run goes on, such as a prompt that a function reads itself.

    with CodeFiles(folder / CODE_FILES, apart_from=home):
        …                                        # the run; each file is noted before the code gets its content
    outdated_files(folder / CODE_FILES)           # ["p.txt"]: the saved replies were asked with another text

Nothing names such a file before the code runs, so it cannot be part of a fingerprint. A run with a changed file is not
continued, and another one starts beside it.

assay learns of the files by Python's audit events. It does not see files that compiled code opens, nor those that a
program of the user's opens. The processes that run the code of pipelines report their files with `note_read`.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import msgspec

from assay.core.hashing import file_sha256
from assay.files.plain_files import open_plain, read_plain
from assay.files.write import sync_data
from assay.usercode.ownership import PACKAGE, installed_folders, is_users_file

CODE_FILES = "code_files.jsonl"
"""The name of the list in a run folder."""

# Code that opens a file per row, such as a picture, would make every start as slow as reading all of them.
MAX_FILES = 200
# So many bytes are hashed in one start, about 0.1 s. Files beyond count by size and time of change.
_MAX_HASHED = 64 << 20
# These modules of assay only call the user's code. What is opened right below them, the user's code opens: an
# `asyncio.to_thread(path.read_text)` has no other frame.
_CALLERS = tuple(
    f"{PACKAGE}{name.replace('/', os.sep)}.py"
    for name in ("core/threads", "usercode/user_function", "usercode/loop", "usercode/watchdog")
)
# Python reads modules and the lines of tracebacks by these. Modules have their own place in a run's identity.
_SOURCE_READERS = ("<frozen importlib", str(Path(os.__file__).with_name("linecache.py")))
# Outside of the working folder, these have nothing that a person edits between two runs.
_ELSEWHERE = tuple(
    f"{folder.rstrip(os.sep)}{os.sep}"
    for folder in ("/proc", "/dev", "/sys", "/etc", sys.prefix, sys.base_prefix, tempfile.gettempdir())
)
# Events of a file that the code changes itself. A file of its own is no input of the run.
_CHANGES = frozenset({"os.rename", "os.remove"})


class CodeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the list: a file as it was when the code opened it."""

    path: str
    """As seen from the working folder of the run."""
    size: int = 0
    mtime_ns: int = 0
    sha256: str = ""
    """Empty if the file is too large. Then size and time of change count."""
    written: bool = False
    """Whether the code also wrote the file. It is then no input, whatever other lines say."""
    crc: str = ""
    """Checksum of the line and of the name of its run folder. Without the name, a line of another run would fit."""

    def checksum(self, run: str) -> str:
        """Return the checksum that the line has in the list of this run."""
        values = (run, self.path, self.size, self.mtime_ns, self.sha256, self.written)
        return f"{zlib.crc32(repr(values).encode()):08x}"

    def is_like(self, other: CodeFile) -> bool:
        """Return whether two lines about a file, perhaps of two machines, are about the same content."""
        if self.sha256 and other.sha256:
            return self.sha256 == other.sha256
        return self.size == other.size

    def is_current(self) -> bool:
        """Return whether the file has this content now."""
        try:
            status = Path(self.path).stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != self.size:
                return False
            if not self.sha256:
                return status.st_mtime_ns == self.mtime_ns
            return file_sha256(Path(self.path)) == self.sha256
        except OSError:
            return False


class CodeFiles:
    """Notes the files that the user's code reads inside `with`. Several may be open at once; each notes all files.

    With `path`, every file is appended to the list there before the code gets its content, so that not even a kill
    or a power cut leaves replies without the files they depend on.
    """

    def __init__(
        self, path: Path | None = None, *, apart_from: Path | None = None, known: Iterable[CodeFile] = ()
    ) -> None:
        """Files below `apart_from` are not noted. `known` were read before, as by the import of a module."""
        self._path = path
        self._here = str(Path.cwd()).rstrip(os.sep) + os.sep
        self._apart = f"{apart_from.resolve()}{os.sep}" if apart_from else ""
        self._hashed = 0
        self._seen: dict[str, tuple[int, int]] = {}
        self._written: set[str] = set()
        self._noted: dict[str, list[CodeFile]] = {}
        self.too_many = False
        """Whether the code read more files than are noted."""
        self.damaged = 0
        """Lines of the list that were changed or cannot be read. Their files are not known."""
        if path is not None:
            _cut_torn_line(path)
            listed, self.damaged = _read_list(path)
            for file in listed:
                self._keep(str(Path(file.path).absolute()), file)
        for file in known:
            self._add(file.path, file)

    def __enter__(self) -> Self:
        _open_lists.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open_lists.remove(self)

    def files(self) -> list[CodeFile]:
        """Return the files, with absolute paths."""
        return [file for path, files in self._noted.items() if path not in self._written for file in files]

    def note_read(self, path: str, size: int, mtime_ns: int) -> None:
        """Note a file that is about to be read. Size and time are those at the moment of reading."""
        state = (size, mtime_ns)
        if self._seen.get(path) == state or path in self._written or not self._is_input(path):
            return
        with _lock:
            if self._seen.get(path) == state:
                return  # another thread opened it at the same time
            sha256 = ""
            if self._hashed + size <= _MAX_HASHED:
                self._hashed += size
                sha256 = file_sha256(Path(path))
                now = Path(path).stat()
                if (now.st_size, now.st_mtime_ns) != state:
                    sha256 = ""  # saved in between, so this is the hash of another content
            self._add(path, CodeFile(path, size, mtime_ns, sha256))
            self._seen[path] = state

    def note_written(self, path: str) -> None:
        """Note that the code writes, moves or removes a file."""
        if path in self._written:
            return
        with _lock:
            if path in self._noted:
                self._append(CodeFile(path, written=True))
            self._written.add(path)

    def _add(self, path: str, file: CodeFile) -> None:
        noted = self._noted.get(path, [])
        if any(_equal(file, other) for other in noted):
            return
        # A second content makes the run outdated whatever the file contains later. A third would add nothing.
        if len(noted) >= 2:
            return
        if len(self._noted) >= MAX_FILES and not noted:
            self.too_many = True
            return
        self._append(file)
        self._keep(path, file)

    def _keep(self, path: str, file: CodeFile) -> None:
        if file.written:
            self._written.add(path)
        self._noted.setdefault(path, []).append(file)

    def _append(self, file: CodeFile) -> None:
        if self._path is None:
            return
        name = file.path.removeprefix(self._here)
        file = msgspec.structs.replace(file, path=name)
        sealed = msgspec.structs.replace(file, crc=file.checksum(self._path.parent.name))
        line = msgspec.json.encode(sealed) + b"\n"
        # One write at the end of the file: copies of this process that the code made may append as well.
        fd = open_plain(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(fd, line)
            sync_data(fd)
        finally:
            os.close(fd)

    def _is_input(self, path: str) -> bool:
        if path.startswith(installed_folders()) or f"{os.sep}site-packages{os.sep}" in path:
            return False
        if self._apart and path.startswith(self._apart):
            return False
        inside = path.removeprefix(self._here)
        # Keys, tokens and caches are in hidden files. They change without a change of what is asked.
        if f"{os.sep}." in os.sep + inside or f"{os.sep}__pycache__{os.sep}" in path:
            return False
        return inside != path or not path.startswith(_ELSEWHERE)


class ForwardedFiles(CodeFiles):
    """Tells another process which files the user's code opens here: that process has the list of the run."""

    def __init__(self, tell: Callable[[CodeFile], object], *, apart_from: Path) -> None:
        """`tell` gets each file, without its hash. Any thread may call it."""
        super().__init__(apart_from=apart_from)
        self._tell = tell

    def note_read(self, path: str, size: int, mtime_ns: int) -> None:
        """Tell of a file that is about to be read, once for each content."""
        state = (size, mtime_ns)
        if self._seen.get(path) != state and path not in self._written and self._is_input(path):
            self._seen[path] = state
            self._tell(CodeFile(path, size, mtime_ns))

    def note_written(self, path: str) -> None:
        """Tell that the code changes a file, once."""
        if path not in self._written:
            self._written.add(path)
            self._tell(CodeFile(path, written=True))

    def tell_again(self) -> None:
        """Tell of all files once more, as after a connection that may have lost some of them.

        The code may have kept what it read and never open the file again.
        """
        for path, (size, mtime_ns) in self._seen.copy().items():
            self._tell(CodeFile(path, size, mtime_ns))
        for path in self._written.copy():
            self._tell(CodeFile(path, written=True))


def listed_files(path: Path) -> list[CodeFile]:
    """Return the files of a list, as they were when the code opened them."""
    return _read_list(path)[0]


def outdated_files(path: Path) -> list[str]:
    """Return the names of the listed files that changed or are gone since the code read them."""
    return outdated(_read_list(path)[0])


def outdated(files: Iterable[CodeFile]) -> list[str]:
    """Return the paths of those files that have another content now, or had two while the code ran."""
    files = list(files)
    written = {file.path for file in files if file.written}
    return sorted({file.path for file in files if file.path not in written and not file.is_current()})


def note_read(path: str, size: int, mtime_ns: int) -> None:
    """Note a file that another process of the user's code has opened, for all runs that go on."""
    for files in _open_lists:
        # A file that cannot be read has no content, and a list that cannot be written must not fail the code.
        with suppress(OSError):
            files.note_read(path, size, mtime_ns)


def note_written(path: str) -> None:
    """Note that another process of the user's code changes a file."""
    for files in _open_lists:
        with suppress(OSError):
            files.note_written(path)


def watch_opens() -> None:
    """Note the files that the user's code opens in this process from now on. Call it before that code is imported.

    It is a call of its own, because a hook cannot be removed again, and most runs have no code of the user's.
    """
    global _is_watching  # noqa: PLW0603 - a second hook would note everything twice
    if not _is_watching:
        _is_watching = True
        sys.addaudithook(_on_audit_event)


_is_watching = False
_open_lists: list[CodeFiles] = []
# Reentrant: a signal handler of the code may open a file while another one is noted.
_lock = threading.RLock()


def _renew_lock() -> None:
    """Another thread may have held the lock when the process was copied. The copy does not have that thread."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if not _open_lists or not (event == "open" or event in _CHANGES):
        return
    changes = event in _CHANGES or bool(isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
    if not _is_opened_by_user(sys._getframe(1)):  # noqa: SLF001 - the only way to the caller's frame
        return
    for name in arguments[: 2 if event == "os.rename" else 1]:
        if not isinstance(name, (str, bytes, os.PathLike)):
            continue  # the number of an open file
        with suppress(OSError, ValueError):  # no such file, or a name that no file can have
            path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100 - Path.resolve would follow links
            path.encode()  # the list is UTF-8
            if changes:
                note_written(path)
                continue
            status = os.stat(path)  # noqa: PTH116 - Path.stat takes four times as long, and code may open a file per row
            if stat.S_ISREG(status.st_mode):
                note_read(path, status.st_size, status.st_mtime_ns)


def _is_opened_by_user(frame: FrameType | None) -> bool:
    """Return whether the nearest frame that is neither of Python nor of a package is the user's, and not assay's."""
    while frame is not None:
        owner = _is_users(frame.f_code.co_filename)
        if owner is not None:
            return owner
        frame = frame.f_back
    return True  # a thread that the user's code started with a function of a package


@lru_cache(1_000)
def _is_users(file: str) -> bool | None:
    """Return whether what a file of Python opens is opened by the user; None if the caller of its code decides."""
    if file.startswith(_SOURCE_READERS):
        return False
    if file.startswith(PACKAGE):
        return file in _CALLERS
    return True if is_users_file(file) else None


def _equal(one: CodeFile, other: CodeFile) -> bool:
    if one.sha256 and other.sha256:
        return one.sha256 == other.sha256
    return (one.size, one.mtime_ns) == (other.size, other.mtime_ns)


def _cut_torn_line(path: Path) -> None:
    """Remove what a kill left of the last line, so that the next line begins on its own."""
    with suppress(FileNotFoundError):
        content = read_plain(path)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)


def _read_list(path: Path) -> tuple[list[CodeFile], int]:
    """Return the lines of a list, and how many others are damaged. A damaged line must not cost the replies of a run.

    The last line may be cut by a kill: the code never got the content of its file.
    """
    try:
        *lines, _ = read_plain(path).split(b"\n")
    except FileNotFoundError:
        return [], 0
    files = []
    for line in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            file = msgspec.json.decode(line, type=CodeFile)
            if file.crc == file.checksum(path.parent.name):
                files.append(file)
    return files, len(lines) - len(files)
