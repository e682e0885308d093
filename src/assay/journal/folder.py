"""Finds, creates and locks run folders: `<output>/assay/<time>-<suite>-<ask fingerprint>/`."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

import msgspec

from assay.core.errors import DamagedRun, Problem, RunBusy, StopRun, UsageError, cannot_write
from assay.core.registry import short
from assay.files.plain_files import PUBLISHED, folder_problems, open_plain
from assay.files.write import FILE_MODE, FOLDER_MODE
from assay.journal.lines import IMPORTED
from assay.journal.run_files import (
    FILES,
    ROWS,
    RunInfo,
    Summary,
    has_journal,
    read_info,
    time_finished,
    usable_summary,
    write_info,
)

# Name of the folder, below the output folder, that has all run folders.
HOME = "assay"
# Names that only files have. Other entries of a run folder may be folders, such as `earlier`.
RUN_FILES = frozenset(
    {
        *FILES,
        ROWS,
        PUBLISHED,
        "run.json",
        "summary.json",
        "lock",
        "code_files.jsonl",
        "output.log",
        "labels.jsonl",
        "notes.json",
        "index.bin",
        "columns.bin",
    }
)
_STAMP = "%Y-%m-%dT%H-%M-%S"
_NAME = re.compile(r"(?P<started>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-(?P<suite>.+)-(?P<ask>[^-]+)")
# Seconds between tries to lock a run. A reader that looks whether a run is locked holds the lock for an instant.
_LOCK_PAUSES = (0.005, 0.02, 0.05)
# Name of a run folder in HOME before it has all of its files. The next new run removes what a kill has left of it.
_NEW = ".new"


class RunFolder:
    """A run folder, locked by this process until `close`."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        self.path = path
        self.is_new = is_new
        """Whether this process created the folder, and it has no reply. Such a folder may be discarded."""
        self._lock = lock_folder(path)
        try:
            # Only now: the process that had the lock may have moved files.
            refuse_unplain(path)
        except BaseException:
            self.close()
            raise

    def info(self) -> RunInfo:
        """Read `run.json`."""
        return read_info(self.path)

    def discard(self) -> None:
        """Remove the folder, and its parents if they become empty. Only for a run without any reply."""
        self.close()
        shutil.rmtree(self.path)
        for parent in (self.path.parent, self.path.parent.parent):
            try:
                parent.rmdir()
            except OSError:
                return

    def close(self) -> None:
        """Unlock the folder. A second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class LockOwner(msgspec.Struct, frozen=True):
    """The content of `lock`: the process that locked the run last. Only while the file is locked it is at work."""

    process: int
    host: str
    folder: str
    """Its working folder, from which the paths of its command are to be read."""


def lock_folder(path: Path) -> int:
    """Lock a run folder for writing and return the lock's file descriptor.

    The operating system releases the lock when the process ends, even after `kill -9`.
    """
    try:
        fd = open_plain(path / "lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise cannot_write(path, error) from error
    for pause in (*_LOCK_PAUSES, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if pause is not None:
                time.sleep(pause)
                continue
            os.close(fd)
            raise RunBusy(
                f"another process is working on {path}. Wait for it, or pass --fresh (in Python fresh=True) "
                "to start a second run"
            ) from None
    # Nothing of the run depends on the content, so a full disk or a working folder that is gone is no reason to stop.
    with suppress(OSError):
        owner = LockOwner(os.getpid(), os.uname().nodename, str(Path.cwd()))
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(owner) + b"\n", 0)
    return fd


@contextmanager
def selection_lock(home: Path) -> Iterator[None]:
    """Lock the choice of a run folder. Without it, two processes of the same command would both create a run."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"the output path {str(home.parent)!r} is a file. Choose a folder") from None
    except OSError as error:
        message = f"the output folder {str(home.parent)!r} cannot be created: {error.strerror}"
        raise UsageError(message) from None
    fd = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def create_run(home: Path, info: RunInfo) -> RunFolder:
    """Create a run folder with its `run.json`, completely or not at all. The caller holds the `selection_lock`."""
    info.started = free_start(home, info.started)
    path = home / run_name(info)
    info.id = secrets.token_hex(8)
    new = home / _NEW
    shutil.rmtree(new, ignore_errors=True)
    folder: RunFolder | None = None
    try:
        new.mkdir(mode=FOLDER_MODE)
        folder = RunFolder(new, is_new=True)
        for file in FILES:
            (new / file).touch(mode=FILE_MODE)
        write_info(new, info)
        new.rename(path)
    except (OSError, StopRun) as error:
        if folder is not None:
            folder.close()
        shutil.rmtree(new, ignore_errors=True)
        raise error if isinstance(error, StopRun) else cannot_write(path, error) from error
    folder.path = path
    return folder


def run_name(info: RunInfo) -> str:
    """Return the name of a run's folder."""
    suite = short(info.suite) + (IMPORTED if info.imported else "")
    return f"{stamp(info.started)}-{suite}-{info.ask}"


def stamp(started: float) -> str:
    """Return the time as it is written in names of files and folders, such as 2026-01-28T03-22-54."""
    return time.strftime(_STAMP, time.localtime(started))


def free_start(home: Path, started: float) -> float:
    """Return the start time of a new run: result files are named after it in seconds, so no two runs share a second."""
    while any(home.glob(f"{stamp(started)}-*")):
        started += 1.0
    return started


def is_run_folder(folder: Path) -> bool:
    """Return whether a folder is a run folder: it has a `run.json`, or it lost it and has a journal with lines.

    A new folder gets its name when it has all files, and is no run folder before.
    """
    return folder.name != _NEW and (os.path.lexists(folder / "run.json") or has_journal(folder))


def info_from_name(folder: Path) -> RunInfo:
    """Return the little that the name of a run folder tells, for a run whose `run.json` cannot be read."""
    parts = _NAME.fullmatch(folder.name)
    suite, ask = (parts["suite"], parts["ask"]) if parts else ("", "")
    started = 0.0
    if parts:
        with suppress(ValueError):  # a folder of this form that assay did not name
            started = time.mktime(time.strptime(parts["started"], _STAMP))
    return RunInfo(suite=suite, ask=ask, started=started, version="", total=0, command=[], spec={}, parts={}, facts={})


def find_newest(home: Path, suite: str, ask: str) -> Path | None:
    """Return the newest run with this `ask` fingerprint, or None."""
    folders = runs_of_suite(home, suite, ask)
    return folders[-1] if folders else None


def runs_of_suite(home: Path, suite: str, ask: str = "*") -> list[Path]:
    """Return the run folders of a suite, oldest first."""
    return sorted(path for path in home.glob(f"*-{escape(short(suite))}-{ask}") if is_run_folder(path))


def find_imported(home: Path, suite: str, ask: str) -> Path | None:
    """Return the imported run with this fingerprint, or None."""
    return find_newest(home, short(suite) + IMPORTED, ask)


def is_overwritten(folder: Path, summary: Summary, suite: str) -> bool:
    """Return whether a later run has overwritten result files of this one."""
    files = {Path(file).absolute() for file in summary.files}
    finished = time_finished(folder)
    for other in runs_of_suite(folder.parent, suite):
        if time_finished(other) <= finished:
            continue
        later = usable_summary(other)
        if later is not None and any(Path(file).absolute() in files for file in later.files):
            return True
    return False


def unplain_problems(folder: Path) -> list[Problem]:
    """Return the links, pipes, devices and sockets in and below a run folder, and folders in place of its files."""
    return list(folder_problems(folder, RUN_FILES))


def refuse_unplain(folder: Path) -> None:
    """Raise DamagedRun if a run folder has entries that assay does not write. A writer could be led out by them."""
    if problems := unplain_problems(folder):
        raise DamagedRun(problems)
