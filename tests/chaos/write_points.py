"""Numbers every write of a process inside one folder, and disturbs one of them.

    points = WritePoints(folder, Disturbance("kill", point=17, when="torn"), report)
    points.install()     # in the process to disturb; nothing is ever uninstalled

A write point is a call that changes a file or a folder: an open for writing, a write, a sync, a rename, a removal. The
functions of `os` and `open` are replaced by functions that count, so the code under test has no hook of its own. File
objects write in C; they get a raw file whose `write` counts. The thread that syncs the journal in the background is not
numbered: its turns depend on the clock.

`report` is an open file descriptor. It gets one line for the disturbed point, `["reached", 17, "write", "out/…"]`, and
one at the end, `["total", 93]`.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What a full disk refuses. It allows removals, cuts and renames.
_NEEDS_ROOM = frozenset({"open", "write", "mkdir", "link", "fallocate"})
# What a folder on a read-only disk refuses. A file that was opened for writing before cannot be there.
_NEEDS_WRITABLE = frozenset({"open", "mkdir", "link", "rename", "unlink", "rmdir", "truncate", "chmod", "utime"})
_SYNC_THREAD = "assay-sync"
# The original functions: this module uses them itself.
_os_write, _kill, _getpid, _readlink = os.write, os.kill, os.getpid, os.readlink
_ABSPATH, _FSDECODE = os.path.abspath, os.fsdecode

Action = Literal["kill", "error", "pause", "signal", "none"]
When = Literal["before", "after", "torn"]


class Disturbance(NamedTuple):
    """What happens at a write point.

    `kill` is `kill -9` of the own process. `error` raises OSError(`errno`), at this point or, if `lasts`, at all later
    ones too. `pause` waits until the parent has written a byte to the pipe. `signal` sends `errno` as a signal's number.
    With `when="torn"`, half of the bytes of a write reach the file first.
    """

    action: Action = "none"
    point: int = 0
    when: When = "before"
    errno: int = 0
    lasts: bool = False
    pipe: tuple[int, int] = (-1, -1)
    """For `pause`: the descriptor to tell the parent on, and the one to wait at."""


class WritePoints:
    """Counts the write points of this process below `root`, and disturbs one."""

    def __init__(self, root: str, disturbance: Disturbance, report: int) -> None:
        self._root = root.rstrip("/") + "/"
        self._disturbance = disturbance
        self._report = report
        self._lock = threading.Lock()
        self._is_done = False
        self.count = 0

    def install(self) -> None:
        """Replace the functions that write, in this process and for good."""
        for name, kind in _BY_PATH.items():
            setattr(os, name, _quiet(_by_path(self, getattr(os, name), kind)))
        for name, kind in _BY_FD.items():
            if hasattr(os, name):
                setattr(os, name, _quiet(_by_fd(self, getattr(os, name), kind)))
        os.open = _quiet(_counted_os_open(self, os.open))
        os.write = _quiet(_counted_write(self, os.write))
        counted_open = _quiet(_counted_open(self, io.open))
        io.open = builtins.open = counted_open
        for method in vars(WritePoints).values():
            if isinstance(method, FunctionType):
                _quiet(method)

    def end(self) -> None:
        """Report how many write points there were."""
        self._tell(["total", self.count])

    def covers(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the path below the root, or None for a file elsewhere."""
        name = _FSDECODE(path)
        if dir_fd is not None:
            name = f"{self._path_of(dir_fd)}/{name}"
        name = _ABSPATH(name)
        return name.removeprefix(self._root) if name.startswith(self._root) else None

    def covers_fd(self, fd: int) -> str | None:
        """Return the path of an open file below the root, or None for a pipe, a socket or a file elsewhere."""
        return self.covers(self._path_of(fd))

    def _path_of(self, fd: int) -> str:
        try:
            return _readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return "/dev/null"

    def reach(self, kind: str, path: str, do: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Count a point, and do what it does, or what the disturbance makes of it. `half` does half of a write."""
        if threading.current_thread().name == _SYNC_THREAD:
            return self._sync(do)
        with self._lock:
            self.count += 1
            is_hit = self._hit(kind)
            # Under the lock: of two threads at the point, one is disturbed, or nobody would let the other go on.
            is_first, self._is_done = is_hit and not self._is_done, self._is_done or is_hit
            number = self.count
        if not is_hit:
            return do()
        self._tell(["reached", number, kind, path])
        return self._happen(do, half, is_first=is_first)

    def _hit(self, kind: str) -> bool:
        wanted = self._disturbance
        if wanted.action == "none" or self.count < wanted.point or (self._is_done and not wanted.lasts):
            return False
        if wanted.action == "error":
            needs = _NEEDS_ROOM if wanted.errno == errno.ENOSPC else _NEEDS_WRITABLE
            if wanted.errno != errno.EIO and kind not in needs:
                return False
        return True

    def _sync(self, do: Callable[[], Any]) -> Any:
        wanted = self._disturbance
        if wanted.action == "error" and wanted.errno == errno.EIO and self.count >= wanted.point:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return do()

    def _happen(self, do: Callable[[], Any], half: Callable[[], Any] | None, *, is_first: bool) -> Any:
        wanted = self._disturbance
        match wanted.action:
            case "kill":
                try:
                    if wanted.when == "after":
                        do()
                    elif wanted.when == "torn" and half is not None:
                        half()
                finally:
                    _kill(_getpid(), signal.SIGKILL)
            case "error":
                if wanted.when == "torn" and is_first and half is not None:
                    return half()  # the next write is refused
                raise OSError(wanted.errno, os.strerror(wanted.errno))
            case "signal":
                if wanted.when == "before":
                    _kill(_getpid(), wanted.errno)
                    return do()
                done = do()
                _kill(_getpid(), wanted.errno)
                return done
            case "pause":
                done = do() if wanted.when == "after" else None
                _os_write(wanted.pipe[0], b"p")
                os.read(wanted.pipe[1], 1)
                return done if wanted.when == "after" else do()
        return do()

    def _tell(self, line: list[Any]) -> None:
        _os_write(self._report, json.dumps(line).encode() + b"\n")


# The functions that count. Each is made for one WritePoints.

_BY_PATH = {
    "replace": "rename",
    "rename": "rename",
    "unlink": "unlink",
    "remove": "unlink",
    "rmdir": "rmdir",
    "mkdir": "mkdir",
    "link": "link",
    "truncate": "truncate",
    "chmod": "chmod",
    "utime": "utime",
}
_BY_FD = {
    "fsync": "sync",
    "fdatasync": "sync",
    "ftruncate": "truncate",
    "pwrite": "write",
    "sendfile": "write",
    "posix_fallocate": "fallocate",
    "fchmod": "chmod",
}


def _quiet(function: Any) -> Any:
    """Give a function the file name of Python's own code.

    assay asks which code opens a file, and takes a frame of an unknown file for the user's.
    """
    assert isinstance(function, FunctionType)
    function.__code__ = _renamed(function.__code__)
    return function


def _renamed(code: CodeType) -> CodeType:
    """Return the code with this file name, also in the functions that it makes."""
    constants = tuple(_renamed(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="<frozen write points>", co_consts=constants)


def _by_path(points: WritePoints, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        dir_fd = named.get("dir_fd", named.get("src_dir_fd"))
        name = points.covers_fd(path) if isinstance(path, int) else points.covers(path, dir_fd)
        if name is None:
            return original(path, *arguments, **named)
        do = partial(original, path, *arguments, **named)
        return points.reach(kind, name, do)

    return call


def _by_fd(points: WritePoints, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def call(fd: Any, *arguments: Any) -> Any:
        name = points.covers_fd(fd if isinstance(fd, int) else fd.fileno())
        if name is None:
            return original(fd, *arguments)
        do = partial(original, fd, *arguments)
        return points.reach(kind, name, do)

    return call


def _counted_os_open(points: WritePoints, original: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = points.covers(path, dir_fd) if flags & _WRITING else None
        if name is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        do = partial(original, path, flags, mode, dir_fd=dir_fd)
        fd: int = points.reach("open", name, do)
        return fd

    return call


def _counted_write(points: WritePoints, original: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
    def call(fd: int, data: Any) -> int:
        name = points.covers_fd(fd)
        if name is None:
            return original(fd, data)
        do = partial(original, fd, data)
        half = partial(original, fd, bytes(memoryview(data)[: len(data) // 2]))
        written: int = points.reach("write", name, do, half)
        return written

    return call


def _counted_open(points: WritePoints, original: Callable[..., Any]) -> Callable[..., Any]:
    """`open`, with a raw file that counts for every mode that writes."""
    raw_write = io.FileIO.write

    class CountedFile(io.FileIO):
        def write(self, data: Any) -> int:
            name = points.covers_fd(self.fileno())
            if name is None:
                return raw_write(self, data)
            content = bytes(data)
            do = partial(raw_write, self, content)
            half = partial(raw_write, self, content[: len(content) // 2])
            written: int = points.reach("write", name, do, half)
            return written

    _quiet(CountedFile.write)

    def call(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not set(mode) & set("wax+"):
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw_mode = mode.replace("b", "").replace("t", "")
        make = partial(CountedFile, file, raw_mode, closefd, opener)
        name = None if isinstance(file, int) else points.covers(file)
        raw = make() if name is None else points.reach("open", name, make)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else max(io.DEFAULT_BUFFER_SIZE, os.fstat(raw.fileno()).st_blksize)
        buffer: Any = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffer
        text = io.TextIOWrapper(buffer, io.text_encoding(encoding), errors, newline)
        text.mode = mode  # type: ignore[misc]
        return text

    return call
