"""`--watch`: runs a suite again whenever a file that it read is saved.

Each round is a process of its own, so that edited Python is imported anew. A round takes the replies to equal requests
from the round before it: only changed requests are sent.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from assay.cli.suite_command import SuiteCommandLine, run_and_print, suite_command
from assay.core.errors import AssayError
from assay.files.paths import path_from_here
from assay.runner.watched_files import FilesRead, FileStates, changed_files, file_states
from assay.store.render.screen import block, heading, rule, safe, tell
from assay.usercode.child_process import restore_safe_path, safe_path_variable, spawned_safely

if TYPE_CHECKING:
    from assay.runner.results import Run

# Seconds between two looks at the files, and how long they must stay as they are: editors write in several steps.
_POLL_SECONDS = 0.3
_INTERRUPTED, _STOPPED = 130, 3
# So many tests that now pass or fail are named.
_MAX_NAMES = 5


class Round(NamedTuple):
    """What one round sends back: its exit code, the folder of its run ("" if there is none), and the files it read.

    The files are as they were when they were read: one that was saved while the round ran starts the next one.
    `is_last` is set by the parent, after a Ctrl-C that only the parent got.
    """

    exit_code: int
    run: str
    files: FileStates
    is_last: bool = False


def watch_suite(command: SuiteCommandLine, flags: dict[str, Any], config: Path | None) -> int:
    """Run a suite until Ctrl-C, again after each change of its files. Returns the exit code of the last round.

    Files that a round read stay watched if a later one fails before it reads them, as after a typing error in YAML.
    """
    files: FileStates = {}
    earlier = ""
    while True:
        last_round = _run_round(command, flags, config, earlier)
        files |= last_round.files
        if last_round.run and earlier and last_round.run != earlier:
            _print_changes(earlier, last_round.run)
        earlier = last_round.run or earlier
        if last_round.is_last or last_round.exit_code == _INTERRUPTED or not files:
            return last_round.exit_code
        now = _wait(files)
        if now is None:
            return last_round.exit_code
        click.echo()
        rule()
        click.echo(f"{time.strftime('%H:%M:%S')}  {_names(changed_files(files, now))} changed")
        files = now


def _run_round(command: SuiteCommandLine, flags: dict[str, Any], config: Path | None, earlier: str) -> Round:
    """Run one round in a process of its own, and return what it sends back.

    Prints a sentence about a process that ended without sending anything, as after a kill.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_run_and_send,
        args=(command.suite, command.words, flags, config, earlier, sender, safe_path_variable()),
    )

    interrupted = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to both processes. The round stops kindly, and this process waits for it. A signal
        # that only this process got lets the round end, and no other begins.
        nonlocal interrupted
        interrupted = True
        if number == signal.SIGTERM and process.pid is not None:
            os.kill(process.pid, number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    with spawned_safely():
        process.start()
    before = [signal.signal(number, pass_on) for number in numbers]
    try:
        sender.close()
        result: Round | None = receiver.recv()
    except EOFError:
        result = None
    finally:
        receiver.close()
        process.join()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    if result is not None:
        return result._replace(is_last=interrupted)
    if process.exitcode in (_INTERRUPTED, -signal.SIGINT, -signal.SIGTERM):
        return Round(_INTERRUPTED, "", {})
    code = process.exitcode or 0
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    tell(f"The process of this round ended with {how} before its run did. The next round continues it")
    return Round(_STOPPED, "", {}, is_last=interrupted)


def _run_and_send(
    suite: str,
    words: str,
    flags: dict[str, Any],
    config: Path | None,
    earlier: str,
    sender: Connection,
    safe_path: str | None,
) -> None:
    """Run the suite in this process, the child, and send its Round to the parent."""
    restore_safe_path(safe_path)
    files = FilesRead()
    code, folder = 0, ""
    outputs: set[str] = set()
    try:
        spec = suite_command(suite, words).spec(flags, config)
        if earlier:
            spec = replace(spec, reuse=earlier, fresh=False)
        run = run_and_print(spec)
        code, folder, outputs = run.exit_code, str(run.folder), _outputs(run)
    except AssayError as error:
        tell(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        code = _INTERRUPTED
    # A finished run looks whether its result files are still there. They are no reason for another round.
    read = {name: state for name, state in files.states().items() if name not in outputs}
    sender.send(Round(code, folder, read))


def _outputs(run: Run) -> set[str]:
    """Return the result files of a run and their copies, and the folder of the copies."""
    files = [*run.files]
    if run.summary.newest:
        newest = Path(run.summary.newest)
        files += [newest, newest / "summary.json", *(newest / file.name for file in run.files)]
    return {str(file.resolve()) for file in files}


def _wait(files: FileStates) -> FileStates | None:
    """Wait until files change and then stay as they are. Returns how they are then, or None after Ctrl-C."""
    last = files
    try:
        # Folders are watched for new files. People know the files.
        known = [file for file in files if not Path(file).is_dir()]
        click.echo(f"\nwatching {_names(known or files)}; Ctrl-C ends", err=True)
        while True:
            now = file_states(files)
            if now != files and now == last:
                return now
            last = now
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        click.echo()
        return None


def _names(files: Iterable[str]) -> str:
    names = [safe(str(path_from_here(Path(file)))) for file in files]
    names.sort(key=len)  # the files that people know come first
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _print_changes(earlier: str, run: str) -> None:
    """Print which cases became right or wrong since the round before."""
    from assay.runner import api

    try:
        result = api.compare(earlier, run, flips=_MAX_NAMES)
    except AssayError:
        return  # one of the runs was stopped, or they have no case in common
    lines = []
    for comparison in result.comparisons:
        subject = f"{comparison.new.subject}: " if len(result.comparisons) > 1 else ""
        for what, flips in (("now passing", comparison.now_passing), ("now failing", comparison.now_failing)):
            if flips.count:
                names = [safe(flip.part or str(flip.id or flip.case)) for flip in flips.shown]
                more = [f"{flips.count - len(names):,} more"] if flips.count > len(names) else []
                lines.append(f"{subject}{what}: {flips.count:,} ({', '.join(names + more)})")
    click.echo()
    heading("since the round before")
    for line in lines or ["nothing became right or wrong"]:
        block(line)
