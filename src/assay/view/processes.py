"""The commands that the pages start: assay's own command line in child processes that outlive the server.

    start = await processes.start(["task", "t.yaml", "--model", "local/smollm2"], folder, places=[folder / "results"])
    if await start.is_handed_over(seconds=5):
        start.run                       # the run folder, or None: then `start.output` says why
    await processes.stop(run_folder)    # kindly; at once if it is asked for again

A child has a session of its own: neither Ctrl-C nor a killed server ends it. The server keeps nothing in memory that it
would need to find the child again: the file `lock` of a run folder is locked as long as a process works on the run, and
names that process. So every view on the folder sees the same runs and can stop them, whoever started them.

What a child prints goes to a file in `.assay-view/` below DIR. As soon as its run folder is known, the file moves there
and is called `output.log`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

from assay.core.errors import AssayError, DamagedRun, UsageError
from assay.core.run_end import BAD_INPUT
from assay.files.plain_files import open_plain_file
from assay.runner.continue_command import continue_command
from assay.store.runs import is_locked, is_run_folder, last_owner, run_folders, state_of
from assay.usercode.child_process import python_command

LOG = "output.log"
"""The file in a run folder with everything that the newest start from a page printed."""
STATE = ".assay-view"
"""The folder below DIR for what a child prints before its run folder is known."""
STOP_SECONDS = 30.0
"""Seconds that a run gets to stop by itself. It waits ten of them for open requests. A run that is killed after them
loses nothing that is in its journal."""
STOP_NOW_SECONDS = 15.0
"""Seconds that a run gets if it was asked twice. Then it waits for no request."""
MAX_OUTPUT = 20_000
"""Bytes at the end of an output that a page shows."""
_LOOK_SECONDS = 0.05
_RUN_LINE = "run   "
# -P keeps the modules of the working folder out of the way, as they are for the command `assay`.
_ASSAY = python_command("assay")


class StartedCommand:
    """One start of a command, until its run is known."""

    def __init__(self, words: Sequence[str], folder: Path, places: Sequence[Path], log: Path) -> None:
        self.id = secrets.token_urlsafe(12)
        self.words = list(words)
        self.run: Path | None = None
        """The run folder of the process, once it is known."""
        self.exit_code: int | None = None
        self.form: dict[str, str] = {}
        """The texts of the form that started it, to show it again after an error."""
        self.output = ""
        """The end of what a process printed that ended without a run."""
        self._folder = folder
        self._places = places
        self._log = log
        self._began = time.time()
        with log.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603 - words of checked options, no shell
                [*_ASSAY, *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        # Waits for the child, which otherwise would stay as a zombie. It is no reason to keep the server alive.
        Thread(target=self._process.wait, name=f"wait for {self._process.pid}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether the run is known, or the process has ended without one."""
        return self.run is not None or self.exit_code is not None

    async def is_handed_over(self, seconds: float) -> bool:
        """Wait until the process works on a run folder or has ended. Returns False if neither is true in time."""
        end = time.monotonic() + seconds
        while not self.is_over:
            began = time.monotonic()
            await asyncio.to_thread(self._look)
            if self.is_over or time.monotonic() >= end:
                break
            # A look below a large folder takes long. Looking takes a fifth of the time at most.
            await asyncio.sleep(max(_LOOK_SECONDS, 4 * (time.monotonic() - began)))
        return self.is_over

    def _look(self) -> None:
        exit_code = self._process.poll()
        run = self._run_of_process()
        if run is None and exit_code is None:
            return
        run = run or self._run_of_output()
        if run is None:
            self.output = read_end(self._log)
            self._log.unlink(missing_ok=True)
        else:
            # Another file system, or a run folder of somebody else: then the file stays where it is.
            with suppress(OSError):
                self._log.replace(run / LOG)
        with suppress(OSError):
            self._log.parent.rmdir()  # only if it is empty
        self.run, self.exit_code = run, exit_code

    def _run_of_process(self) -> Path | None:
        """Return the run folder that the process has locked, also if it has ended since."""
        if self._process.returncode is None:
            with suppress(OSError):  # it has ended meanwhile, or the system has no /proc
                files = [link.readlink() for link in Path(f"/proc/{self._process.pid}/fd").iterdir()]
                locks = [file for file in files if file.name == "lock" and is_run_folder(file.parent)]
                return locks[0].parent if locks else None
        for place in self._places:
            for folder in run_folders(place):
                owner = last_owner(folder)
                if owner is None or owner.process != self._process.pid:
                    continue
                # An older run may have had a process with the same number.
                if (folder / "lock").stat().st_mtime >= self._began - 1:
                    return folder
        return None

    def _run_of_output(self) -> Path | None:
        """Return the run folder that the command names at its end. A finished run is not locked again."""
        for line in reversed(read_end(self._log).splitlines()):
            if line.startswith(_RUN_LINE):
                folder = self._folder / line.removeprefix(_RUN_LINE)
                return folder if is_run_folder(folder) else None
        return None


class Processes:
    """Starts, stops and continues runs below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._starts: dict[str, StartedCommand] = {}
        self._stops: dict[Path, _Stop] = {}

    async def start(
        self, words: Sequence[str], folder: Path | None = None, places: Sequence[Path] = ()
    ) -> StartedCommand:
        """Start `assay WORDS…` in a working folder. No shell is involved: every word is one argument.

        `places` are the output folders in which its run can be; without them, all runs below DIR are looked at.
        Raises UsageError if DIR cannot be written.
        """
        state = self._root / STATE
        log = state / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{secrets.token_hex(4)}.log"

        def begin() -> StartedCommand:
            try:
                state.mkdir(exist_ok=True)
                return StartedCommand(words, folder or self._root, places or [self._root], log)
            except OSError as error:
                raise UsageError(f"nothing can be started here: {error.strerror}: {error.filename}") from None

        start = await asyncio.to_thread(begin)
        self._starts = {name: each for name, each in self._starts.items() if not each.is_over}
        self._starts[start.id] = start
        return start

    def find(self, start_id: str) -> StartedCommand | None:
        """Return a start of this server whose run was not known yet. None after the server was started again."""
        return self._starts.get(start_id)

    async def plan(self, words: Sequence[str], seconds: float = 60.0) -> tuple[bool, str]:
        """Run `assay WORDS… --dry-run` to its end. Returns whether it succeeded, and what it printed.

        It writes no file. Unlike a start, it ends with the server.
        """
        command = [*_ASSAY, *words, "--dry-run"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self._root, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=_environment()
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), seconds)
        except TimeoutError:
            return False, f"The plan was not ready after {seconds:.0f} seconds. A start needs none."
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode == 0, output.decode(errors="replace").strip("\n")

    async def resume(self, run: Path) -> StartedCommand:
        """Continue a run with its own command. Raises UsageError if that is not possible from a page."""
        command = await asyncio.to_thread(page_command, run)
        if isinstance(command, str):
            raise UsageError(command)
        words, folder = command
        # The command may start another run beside it, if a file of its data has changed.
        return await self.start(words, folder, [run.parent.parent])

    async def stop(self, run: Path) -> None:
        """Ask the process of a run to stop: kindly, the second time at once, the third time it is killed.

        It is also killed if it does not stop in time. Raises UsageError if this server cannot reach the process.
        """
        process = await asyncio.to_thread(_process_of, run)
        if process is None:
            return
        stop = self._stops.get(run)
        if stop is None:
            _send(process, signal.SIGTERM)
            stop = self._stops[run] = _Stop(STOP_SECONDS)
            stop.task = asyncio.create_task(self._kill_late(run, process, stop))
        elif stop.times == 1:
            # Another signal, because two equal ones that come soon after each other count as one.
            _send(process, signal.SIGINT)
            stop.end = min(stop.end, time.monotonic() + STOP_NOW_SECONDS)
        else:
            _send(process, signal.SIGKILL)
        stop.times += 1

    def times_stopped(self, run: Path) -> int:
        """Return how often this server has asked the process of a run to stop; 0 once it has ended."""
        stop = self._stops.get(run)
        return stop.times if stop else 0

    async def close(self) -> None:
        """Forget all starts. The child processes go on."""
        tasks = [stop.task for stop in self._stops.values() if stop.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _kill_late(self, run: Path, process: int, stop: _Stop) -> None:
        """Kill a process that has not stopped in time."""
        try:
            while await asyncio.to_thread(_process_of, run) == process:
                if time.monotonic() >= stop.end:
                    _send(process, signal.SIGKILL)
                await asyncio.sleep(_LOOK_SECONDS * 4)
        finally:
            del self._stops[run]


class _Stop:
    """A run that was asked to stop: how often, and until when it may take its time."""

    def __init__(self, seconds: float) -> None:
        self.times = 0
        self.end = time.monotonic() + seconds
        self.task: asyncio.Task[None] | None = None


def page_command(run: Path) -> tuple[list[str], Path] | str:
    """Return the command with which a page continues a run, as `continue_command`; or a sentence why none can.

    A run of which only cases with bad data are left cannot go on: its command ends with exit code 2, and corrected data
    make another run.
    """
    summary = None
    with suppress(AssayError):  # a damaged journal or summary, which the command repairs
        summary = state_of(run).summary
    if summary is not None and summary.state == "incomplete" and summary.exit_code == BAD_INPUT:
        return f"{summary.exit_reason}. Correct the task or its data, then start the run again."
    return continue_command(run)


def may_write(run: Path) -> bool:
    """Return whether this user may continue, label and annotate a run."""
    return os.access(run, os.W_OK | os.X_OK)


def read_end(path: Path) -> str:
    """Return the end of a log; empty if there is none."""
    try:
        with open_plain_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MAX_OUTPUT))
            return file.read().decode(errors="replace").strip("\n")
    except OSError:
        return ""
    except DamagedRun as error:
        return str(error)


def _process_of(run: Path) -> int | None:
    """Return the process that works on a run; None if no process does. Raises UsageError if it cannot be reached."""
    if not is_locked(run):
        return None
    owner = last_owner(run)
    if owner is None:
        raise UsageError("It is not known which process works on this run. Stop it where it was started.")
    if owner.host != os.uname().nodename:
        raise UsageError(f"This run works on the machine {owner.host}. Stop it there.")
    return owner.process


def _send(process: int, number: signal.Signals) -> None:
    try:
        # A child of a view leads its own session. A run that was started in a terminal shares one with the shell.
        if number == signal.SIGKILL and os.getsid(process) == process:
            os.killpg(process, number)
        else:
            os.kill(process, number)
    except ProcessLookupError:
        pass  # it has ended meanwhile
    except PermissionError:
        raise UsageError("The process of this run belongs to another user, who can stop it.") from None


def _environment() -> dict[str, str]:
    """Return the environment of a child: that of the server, with its API keys; output is plain and wide."""
    return {**os.environ, "COLUMNS": "110", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
