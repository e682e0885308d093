"""Finds runs on disk and determines their state."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from assay.core.errors import DamagedRun, InputError, UsageError
from assay.core.hashing import file_sha256
from assay.files.paths import walk_folders
from assay.files.plain_files import open_plain, read_plain
from assay.journal.folder import HOME, LockOwner, info_from_name, is_run_folder
from assay.journal.integrity import file_problems, intact_index, refuse_lost_lines
from assay.journal.run_files import RunInfo, Summary, SummaryHead, read_info, read_summary, usable_summary

if TYPE_CHECKING:
    from assay.core.suite_pages import RunOrigin

__all__ = [
    "LockOwner",
    "RunState",
    "changed_file_message",
    "file_digests",
    "find_run",
    "finished_run",
    "is_locked",
    "is_run_folder",
    "last_owner",
    "origin_of",
    "run_folders",
    "split_subject",
    "started_in",
    "state_of",
    "states",
]

_MAX_CHOICES = 20  # runs that an error message lists; the newest ones
_MAX_HEADLINE = 60  # characters of a run's score in such a message


class RunState(NamedTuple):
    """One line of `assay runs`. `done` is the number of finished cases."""

    folder: Path
    info: RunInfo
    summary: Summary | None
    state: str
    done: int
    problem: str = ""
    """What is wrong with a run in the state `damaged` or `unreadable`, and what to do."""

    @property
    def headline(self) -> str:
        """The first metric of each entry of the report, such as `gsm8k exact_match 0.6100`."""
        if self.summary is None or self.summary.report is None:
            return ""
        numbers = []
        for entry in self.summary.report.entries:
            metric = entry.metrics[0] if entry.metrics else None
            if metric is not None and metric.value is not None:
                name = f"{metric.name},{metric.filter}" if metric.filter else metric.name
                numbers.append(f"{entry.name} {name} {metric.value:.4f}")
        return "; ".join(numbers)


def run_folders(root: Path) -> Iterator[Path]:
    """Yield the run folders at or below a folder, sorted by name, which starts with the date.

    A run folder is one that matches `assay/*/run.json`. A folder that lost its `run.json` is one too.
    """
    if is_run_folder(root):
        yield root
        return
    folders = filter(_is_home_run, walk_folders(root, _is_home_run, follow_links=True))
    yield from sorted(folders, key=lambda folder: (folder.name, folder))


def _is_home_run(folder: Path) -> bool:
    """Return whether a folder is a run folder in the folder `assay` of an output folder."""
    return folder.absolute().parent.name == HOME and is_run_folder(folder)


def find_run(name: str, other_than: str = "") -> Path:
    """Return the folder of a run. `name` is a run folder, an output folder with one run, or the start of a run's name.

    `other_than` is a fingerprint at the end of run names. In an output folder, runs with it are left out: `--reuse`
    must not find the run itself. Raises UsageError if no run matches, or more than one.
    """
    path = Path(name)
    if path.is_dir():
        folders = list(run_folders(path))
        if other_than and folders != [path]:
            folders = [folder for folder in folders if not folder.name.endswith(other_than)]
        none_message = f"there is no run in {name!r}"
        several_message = f"{name!r} has {len(folders)} runs. Pass one of them:\n"
    else:
        folders = [folder for folder in run_folders(Path()) if folder.name.startswith(name)]
        none_message = f"there is no run {name!r}; `assay runs` lists the runs"
        if path.is_file():
            none_message = (
                f"{name!r} is a file, and not a run folder; `assay runs` lists the runs. "
                f"To make a run of a result file: assay import {name}"
            )
        several_message = f"{name!r} matches {len(folders)} runs. Pass one of them:\n"
    if not folders:
        raise UsageError(none_message)
    if len(folders) > 1:
        raise UsageError(several_message + "\n".join(map(_line, folders[-_MAX_CHOICES:])))
    return folders[0]


def _line(folder: Path) -> str:
    """Return the line of a run in a message with several runs: its folder, model and score."""
    try:
        run = state_of(folder)
    except (InputError, UsageError):
        return f"  {folder}"
    score = run.headline if len(run.headline) <= _MAX_HEADLINE else run.headline[: _MAX_HEADLINE - 1] + "…"
    return "  " + "  ".join(filter(None, (str(folder), str(run.info.spec.get("model", "")), run.state, score)))


def split_subject(name: str) -> tuple[str, str]:
    """Split RUN@SUBJECT. Both parts may contain an @ themselves; an existing folder decides where to split."""
    if _is_folder(name):
        return name, ""
    for position, character in enumerate(name):
        if character == "@" and _is_folder(name[:position]):
            return name[:position], name[position + 1 :]
    run, _, subject = name.partition("@")
    return run, subject


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # a subject may be longer than any file name
        return False


def finished_run(name: str) -> RunState:
    """Return a run that has ended. Raises UsageError for any other run, because its numbers would still change.

    An incomplete run has ended too; some of its cases have no answer. Reads `run.json` and `summary.json` only.
    """
    folder = find_run(name)
    info, summary = read_info(folder), read_summary(folder)
    refuse_lost_lines(folder, summary)
    state = "running" if is_locked(folder) else summary.state if summary else "unfinished"
    if summary is None or state not in ("finished", "incomplete"):
        raise UsageError(f"{folder} is not finished ({state}). Repeat its command to continue it.")
    return RunState(folder, info, summary, state, summary.ok + summary.subject_error + summary.infra_error)


def changed_file_message(folder: Path) -> str:
    """Return a sentence about the first result file that is gone, edited or overwritten by a later run; else ""."""
    summary = read_summary(folder)
    for name in summary.files if summary else ():
        path = Path(name)
        # A run of an earlier version has no digests.
        digest = summary.digests.get(name) if summary else None
        if not path.is_file() or (digest is not None and file_sha256(path) != digest):
            return (
                f"its result file {path} is gone or was changed. Repeat the command of the run, which writes it again"
            )
    return ""


def states(root: Path, *, count_running: bool = True) -> Iterator[RunState]:
    """Yield the state of every run below a folder. Without `count_running`, 0 cases of a running run have ended.

    A run with a damaged file has the state `damaged`, a run of another format `unreadable`. Their `problem` says more.
    Of finished runs only the sizes of the journal's files are looked at; `assay check RUN` reads every line. The
    reports have only the names and metrics of their entries.
    """
    for folder in run_folders(root):
        try:
            run = _state(folder, SummaryHead, count_running=count_running)
            if run.state != "running" and file_problems(folder, run.summary):
                refuse_lost_lines(folder, read_summary(folder))
        except DamagedRun as error:
            run = _damaged_state(folder, "damaged", str(error))
        except (InputError, UsageError) as error:
            run = _damaged_state(folder, "unreadable", str(error))
        yield run


def _damaged_state(folder: Path, state: str, problem: str) -> RunState:
    """Return what can still be said about a run that cannot be read as a whole."""
    try:
        info = read_info(folder)
    except (InputError, UsageError):
        info = info_from_name(folder)
    summary = usable_summary(folder)
    done = summary.ok + summary.subject_error + summary.infra_error if summary else 0
    return RunState(folder, info, summary, state, done, problem)


def state_of(folder: Path) -> RunState:
    """Return the state of a run: running, finished, incomplete, stopped, or unfinished after a crash.

    Raises DamagedRun if `run.json`, `summary.json` or, in an unfinished run, a line of the journal is damaged.
    """
    return _state(folder, Summary)


def _state(folder: Path, kind: type[Summary], *, count_running: bool = True) -> RunState:
    """Return the state of a run, with a summary of this kind."""
    info = read_info(folder)
    summary = read_summary(folder, run=info.id, kind=kind)
    if is_locked(folder):
        state = "running"
        if not count_running:
            return RunState(folder, info, summary, state, 0)
    elif summary is None:
        state = "unfinished"
    else:
        done = summary.ok + summary.subject_error + summary.infra_error
        return RunState(folder, info, summary, summary.state, done)
    # There is no usable summary, so the finished cases are counted in the journal.
    index = intact_index(folder, summary)
    done = len(index.ask.codes) - index.ask.codes.count(0)
    return RunState(folder, info, summary, state, done)


def file_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a run's result files by their paths; empty if it has no usable summary."""
    summary = usable_summary(folder)
    return summary.digests if summary else {}


def is_locked(folder: Path) -> bool:
    """Return True if a process is working on the run. It holds an flock, which the kernel drops when it dies.

    Raises DamagedRun if `lock` is no plain file.
    """
    try:
        fd = open_plain(folder / "lock")
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def last_owner(folder: Path) -> LockOwner | None:
    """Return the process that locked the run last; None if it is not known, as for runs of earlier versions.

    It is at work only while `is_locked` is true.
    """
    try:
        return msgspec.json.decode(read_plain(folder / "lock"), type=LockOwner)
    except (OSError, DamagedRun, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def origin_of(run: Path, info: RunInfo) -> RunOrigin:
    """Return what a run stores about its data. Its paths start in the folder of its start, if that is known."""
    from assay.core.suite_pages import RunOrigin

    options, plan = info.spec.get("options"), (info.parts.get("ask") or {}).get("plan")
    return RunOrigin(
        options if isinstance(options, dict) else {},
        info.facts,
        plan if isinstance(plan, dict) else {},
        started_in(run.resolve(), str(info.spec.get("output_dir") or "")) or Path(),
    )


def started_in(run: Path, output: str) -> Path | None:
    """Return the folder in which a run was started: there `output`, its `--output-dir`, leads to it. Else None."""
    home = run.parent.parent
    if Path(output).is_absolute() or ".." in Path(output).parts:
        owner = last_owner(run)
        if owner is None or Path(owner.folder, output).resolve() != home.resolve():
            return None
        return Path(owner.folder) if Path(owner.folder).is_dir() else None
    folder = home
    for part in reversed(Path(output).parts):
        if part != folder.name:
            return None
        folder = folder.parent
    return folder
