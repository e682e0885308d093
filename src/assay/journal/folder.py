"""Finds, creates and locks run folders: `<output>/assay/<time>-<suite>-<ask fingerprint>/`."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zlib import crc32

import msgspec

from assay.core import files
from assay.core.errors import DamagedRun, Problem, RunBusy, UsageError, cannot_write
from assay.core.imported import ImportOrigin
from assay.core.registry import short
from assay.core.report import Report
from assay.journal.lines import FORMAT, other_format, run_id, seed

FILES = ("calls.jsonl", "records.jsonl", "scores.jsonl")
_CHECKSUM_END = re.compile(rb',\n  "crc": "([0-9a-f]{8})"\n\}\n\Z')
# What is wrong with a file whose checksum does not match, and what to do.
_ADVICE = {
    "run.json": "the file was changed after it was written: its checksum does not match. Restore it from a copy; or "
    "repeat the command of the run with --fresh --reuse RUN_FOLDER, which takes all replies from this run",
    "summary.json": "the file was changed after it was written: its checksum does not match. Repeat the command of "
    "the run, which writes it again from the journal",
}
# Name of the folder, below the output folder, that has all run folders.
HOME = "assay"
# In the name of an imported run's folder, after its suite. No suite looks for runs with such a name, so an imported run
# is never continued.
_IMPORTED = ".imported"


class RunInfo(msgspec.Struct, kw_only=True):
    """`run.json`: the options of the run and facts about its data. Written once, when the run is created.

    `parts["ask"]` is what the fingerprint `ask` was computed from. It serves to name the differences of two runs.
    """

    schema: int = FORMAT
    suite: str
    ask: str
    started: float
    version: str
    total: int
    command: list[str]
    spec: dict[str, Any]
    parts: dict[str, Any]
    facts: dict[str, Any]
    score_parts: Literal["none", "filters", "rows"] = "none"
    """The meaning of `Score.part` in this suite: `Suite.parts`."""
    id: str = ""
    """A random text. It is part of every checksum of the run, so files of another run are recognised."""
    imported: ImportOrigin | None = None
    """The files of another program that the run was made from. None for a run of assay's own."""


class _Format(msgspec.Struct):
    """The one field of `run.json` that every format has. Format 1 had no number."""

    schema: int = 1


class Summary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`summary.json`: state and results of the run. Each start rewrites it at its end.

    `state` is "finished", "incomplete" (cases without an answer), "stopped", or "unfinished" while a start works.
    `score` is the fingerprint of the scoring settings. `spent` counts the calls of all starts, `this_start` those of
    the last one.
    """

    state: str
    score: str
    scorers: list[str]
    total: int
    ok: int
    subject_error: int
    infra_error: int
    exit_code: int
    seconds: float
    spent: dict[str, int]
    this_start: dict[str, int]
    files: list[str]
    report: Report | None = None
    failures: dict[str, int] = {}
    first_failures: dict[str, str] = {}
    """The message of the first failure of each kind in `failures`."""
    newest: str = ""
    unscored: int = 0


def write_info(folder: Path, info: RunInfo) -> None:
    """Write `run.json`. Raises StopRun if the disk is full."""
    _write_sealed(folder / "run.json", info)


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `summary.json` completely or not at all. Raises StopRun if the disk is full."""
    _write_sealed(folder / "summary.json", summary, run_id(folder))


def _write_sealed(path: Path, value: RunInfo | Summary, run: str = "") -> None:
    """Write indented JSON with a checksum as its last key."""
    body = msgspec.json.format(msgspec.json.encode(value), indent=2)[: -len("\n}")]
    checksum = crc32(body, seed(run, path.stem))
    try:
        files.write_whole(path, b'%b,\n  "crc": "%08x"\n}\n' % (body, checksum))
    except OSError as error:
        raise cannot_write(path, error) from error


def _read_sealed(path: Path, run: str = "") -> bytes:
    """Return the content of a file with a checksum. Raises DamagedRun if it was changed, FileNotFoundError."""
    content = path.read_bytes()
    end = _CHECKSUM_END.search(content)
    if end is None or crc32(content[: end.start()], seed(run, path.stem)) != int(end[1], 16):
        raise DamagedRun(Problem(str(path), _ADVICE[path.name]))
    return content


def copy_to_newest(folder: Path, summary: Summary) -> None:
    """Copy the run's result files and summary to `Outcome.newest`, the folder for the newest run, if there is one."""
    if not summary.newest:
        return
    target = Path(summary.newest)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in (*map(Path, summary.files), folder / "summary.json"):
            temporary = target / f".{file.name}.tmp"
            shutil.copyfile(file, temporary)
            temporary.replace(target / file.name)
    except OSError as error:
        raise cannot_write(target, error) from error


def read_info(folder: Path) -> RunInfo:
    """Read `run.json`. Raises InputError for a run of another format, DamagedRun if the file was changed."""
    path = folder / "run.json"
    try:
        # The format first: another format may have no checksum.
        written = msgspec.json.decode(path.read_bytes(), type=_Format).schema
        if written != FORMAT:
            raise other_format(str(path), written)
        return msgspec.json.decode(_read_sealed(path), type=RunInfo)
    except FileNotFoundError:
        raise UsageError(f"{folder} is not a run folder: it has no run.json") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamagedRun(Problem(str(path), _ADVICE[path.name])) from None


def read_summary(folder: Path) -> Summary | None:
    """Read `summary.json`. Returns None if the run has none yet. Raises DamagedRun if the file was changed."""
    path = folder / "summary.json"
    try:
        return msgspec.json.decode(_read_sealed(path, run_id(folder)), type=Summary)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DamagedRun(Problem(str(path), _ADVICE[path.name])) from None


def usable_summary(folder: Path) -> Summary | None:
    """Read `summary.json`. Returns None also for a damaged one: the next start writes it again."""
    try:
        return read_summary(folder)
    except DamagedRun:
        return None


def forget_indexes(folder: Path) -> None:
    """Remove the sidecars of the index, so that the next reader verifies every line of the journal."""
    for path in folder.glob("*.bin"):
        path.unlink(missing_ok=True)


class FinishedSummary(NamedTuple):
    """The summary of a finished run, and when it was written."""

    summary: Summary
    written_ns: int


def reopen(folder: Path) -> FinishedSummary | None:
    """Set the state in summary.json to "unfinished". Until it is rewritten, result files may have earlier scores.

    Returns the summary as it was, for `restore_summary`; None if the run was not finished.
    """
    summary = usable_summary(folder)
    if summary is None:
        return None
    written_ns = _time_finished(folder)
    write_summary(folder, msgspec.structs.replace(summary, state="unfinished"))
    return FinishedSummary(summary, written_ns) if summary.state == "finished" else None


def restore_summary(folder: Path, earlier: FinishedSummary, spent: dict[str, int]) -> None:
    """Write the summary of a finished run back after a start that changed no result file.

    `spent` counts the calls of that start too.
    """
    path = folder / "summary.json"
    write_summary(folder, msgspec.structs.replace(earlier.summary, spent=spent))
    # `is_overwritten` compares these times: this start has written no result file, so it must not look newer.
    os.utime(path, ns=(earlier.written_ns, earlier.written_ns))


def is_overwritten(folder: Path, summary: Summary, suite: str) -> bool:
    """Return whether a later run has overwritten result files of this one."""
    files = {Path(file).absolute() for file in summary.files}
    finished = _time_finished(folder)
    for other in runs_of_suite(folder.parent, suite):
        if _time_finished(other) <= finished:
            continue
        later = usable_summary(other)
        if later is not None and any(Path(file).absolute() in files for file in later.files):
            return True
    return False


def _time_finished(folder: Path) -> int:
    path = folder / "summary.json"
    return path.stat().st_mtime_ns if path.is_file() else 0


def stamp(started: float) -> str:
    """Return the time as it is written in names of files and folders, such as 2026-01-28T03-22-54."""
    return time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))


class RunFolder:
    """A run folder, locked by this process until `close`. `created` is True if this process created it."""

    def __init__(self, path: Path, *, created: bool) -> None:
        self.path = path
        self.created = created
        self._lock = lock_folder(path)

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


def lock_folder(path: Path) -> int:
    """Lock a run folder for writing and return the lock's file descriptor.

    The operating system releases the lock when the process ends, even after `kill -9`.
    """
    fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise RunBusy(
            f"another process is working on {path}. Wait for it, or pass --fresh (in Python fresh=True) "
            "to start a second run"
        ) from None
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


def find_newest(home: Path, suite: str, ask: str) -> Path | None:
    """Return the newest run with this `ask` fingerprint, or None."""
    folders = runs_of_suite(home, suite, ask)
    return folders[-1] if folders else None


def runs_of_suite(home: Path, suite: str, ask: str = "*") -> list[Path]:
    """Return the run folders of a suite, oldest first."""
    return sorted(
        path for path in home.glob(f"*-{escape(short(suite))}-{ask}") if (path / "run.json").is_file()
    )


def find_imported(home: Path, suite: str, ask: str) -> Path | None:
    """Return the imported run with this fingerprint, or None."""
    return find_newest(home, short(suite) + _IMPORTED, ask)


def create_run(home: Path, info: RunInfo) -> RunFolder:
    """Create a run folder with its `run.json`."""
    # Result files are named after the start time in seconds, so no two runs may share a second.
    while any(home.glob(f"{stamp(info.started)}-*")):
        info.started += 1.0
    suite = short(info.suite) + (_IMPORTED if info.imported else "")
    path = home / f"{stamp(info.started)}-{suite}-{info.ask}"
    info.id = secrets.token_hex(8)
    path.mkdir()
    folder = RunFolder(path, created=True)
    for file in FILES:
        (path / file).touch()
    write_info(path, info)  # last: a folder with this file counts as a run
    return folder
