"""Starts or continues a run: puts suite, engine, journal and models together.

    runner = Runner(suite, models, observers)   # knows which run this is; no file is written yet
    run = runner.show_finished() or await runner.run()
    await runner.close()

A run has four steps. `opening.py` makes the suite and the models of a spec. `identity.py` says which run that is and
which folder continues. `start.py` runs its unfinished cases. `finish.py` writes report and summary. Runner takes a
suite object instead of a suite's name, so that code can run a suite that is not registered.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import assay
from assay.core.errors import DamagedRun, ExecutorRefused, ModelRefused, StartInterrupted, StopRun
from assay.core.events import Notify
from assay.core.protocols import Model
from assay.core.suite import Rows, Suite
from assay.engine.cases import Cases
from assay.journal import folder as folders
from assay.journal.earlier import is_kept
from assay.journal.folder import RunFolder
from assay.journal.integrity import is_damaged
from assay.journal.lines import forget_sidecars
from assay.journal.run_files import RunInfo, check_owner, copy_to_newest, has_own_newest, read_info, usable_summary
from assay.language.patterns import forget_stops
from assay.runner.borrowed_replies import BorrowedReplies
from assay.runner.identity import OutdatedRun, RunIdentity
from assay.runner.opened import OpenedRun
from assay.runner.results import Run
from assay.runner.start import Start


class Runner:
    """One run: finds or creates its folder, runs the unfinished cases, writes the results."""

    def __init__(
        self,
        suite: Suite[Any, Any],
        models: Mapping[str, Model],
        observers: Sequence[Notify] = (),
        *,
        asks: bool = True,
        folder: Path | None = None,
        command: Sequence[str] | None = None,
        trusted: bool = True,
    ) -> None:
        """With `folder`, score the run in that folder again, instead of searching or creating a run.

        `command` is written to run.json; the default is the command line of this process. `trusted` is
        False if settings and records come from a run folder that may be somebody else's.
        """
        self._opened = OpenedRun(suite, models, observers, asks=asks, trusted=trusted)
        self.identity = RunIdentity(self._opened, folder)
        self._borrowed = BorrowedReplies(self._opened, self.identity)
        self.suite = suite
        self.spec = suite.spec
        self.models = models
        self.prices = self._opened.prices
        self._command_words = list(sys.argv if command is None else command)
        self._current: Start | None = None
        self._interrupted = False

    def continue_in(self, run: Path) -> None:
        """Continue this run, instead of the newest one that asks the same."""
        self.identity.continued = run

    def borrow_replies(self, run: Path) -> None:
        """Take replies of this run for the same case and the same request, in this start and in later ones."""
        self._borrowed.replaced = run

    def show_finished(self) -> Run | None:
        """Return the run if nothing is left to request, score or write, else None. Brings its copies up to date."""
        path = self.identity.find_run().folder
        summary = usable_summary(path) if path else None
        if path is None or summary is None or summary.state != "finished" or summary.score != self.identity.score:
            return None
        if self.spec.retry_failed and summary.subject_error:
            return None
        # A result file that was deleted, or overwritten by another run, is written again by `run`.
        if not all(Path(file).is_file() for file in summary.files):
            return None
        # So is one that a killed start with other scores may have replaced.
        if any(is_kept(path, Path(file)) for file in summary.files):
            return None
        if folders.is_overwritten(path, summary, self.spec.suite) or not has_own_newest(path, summary):
            return None
        # A damaged journal is repaired by `run`. The numbers of the summary are right, but no case could be shown.
        if is_damaged(path, summary):
            return None
        try:
            copy_to_newest(path, summary)
        except StopRun as error:
            # The copy is a convenience. A finished run is shown also where nothing can be written.
            why = f"{summary.newest} is not up to date: {error.__cause__}"
            self._opened.notice([f"the run is finished, its files are in {path}; {why}"])
        if summary.report is not None and self._opened.trusted:
            self._opened.notice(self.suite.on_report(summary.report))
        return Run(path, read_info(path), summary, summary.exit_code, asked=False)

    async def start_or_show(self, *, signals: bool = False) -> Run:
        """Return the finished run, or run what is left. Closes the models and the suite.

        With `signals`, Ctrl-C and SIGTERM stop the run kindly. Without, the caller's own handlers stay, and cancelling
        this coroutine stops the run kindly.
        """
        try:
            return self.show_finished() or await self.run(signals=signals)
        finally:
            await self.close()

    async def run(self, *, signals: bool = False) -> Run:
        """Run and score the unfinished cases, and write the results."""
        self._opened.check_max_cost()
        # Whether a pattern of this run is stopped must not depend on earlier runs in a notebook.
        forget_stops()
        folder, info, cases = self._take_folder()
        # Rows and modules live as long as the run. gc.freeze() hides them from the garbage collector, which otherwise
        # walks them again and again: 5 % of the CPU time of a run with many rows.
        gc.freeze()
        try:
            try:
                run = await self._start(folder, info, cases, signals=signals).run()
            except DamagedRun:
                # A line that the index's sidecar covers was changed. Without sidecar, every line is verified and the
                # journal is repaired.
                forget_sidecars(folder.path)
                folder.is_new = False  # it has replies, so it is repaired and never discarded
                run = await self._start(folder, info, cases, signals=signals).run()
            if self._is_cancelled:
                raise asyncio.CancelledError
            return run
        except (ModelRefused, ExecutorRefused, StartInterrupted) as error:
            # A wrong key or model name is found at the first request, a cluster that is too small before it. The new
            # folder has no reply worth keeping.
            if folder.is_new:
                folder.discard()
            if not isinstance(error, StartInterrupted):
                raise
            # What callers know: Python's own exit code is about this very class.
            raise (asyncio.CancelledError if self._is_cancelled else KeyboardInterrupt("interrupted")) from None
        finally:
            gc.unfreeze()
            folder.close()

    async def close(self) -> None:
        """Close every model's connections, and stop the processes that the suite started."""
        await self._opened.close()

    def interrupt(self) -> None:
        """Stop kindly, as Ctrl-C does; call it in the thread of the run's event loop. A second call stops at once."""
        self._interrupted = True
        if self._current is not None:
            self._current.interrupt()

    @property
    def _is_cancelled(self) -> bool:
        return self._current is not None and self._current.is_cancelled

    def _start(self, folder: RunFolder, info: RunInfo, cases: Cases, *, signals: bool) -> Start:
        start = Start(self._opened, self.identity, self._borrowed, folder, info, cases, signals=signals)
        if self._interrupted:
            start.interrupt()  # it came before this start
        start.is_cancelled = self._is_cancelled
        self._current = start
        return start

    def _take_folder(self) -> tuple[RunFolder, RunInfo, Cases]:
        """Return the run's folder, locked, with its cases. Reads the data first: bad data creates no folder."""
        identity = self.identity
        path = identity.find_run().folder
        if path is not None:
            info = read_info(path)
            check_owner(path, info, "" if identity.folder else identity.ask)
            cases = Cases(self.suite, self.suite.rows(info.facts), identity.shard)
            self._borrowed.continue_run(info)
            with folders.selection_lock(identity.home):
                folder = RunFolder(path, is_new=False)
                return folder, folder.info(), cases
        rows = self.suite.rows(None)
        cases = Cases(self.suite, rows, identity.shard)
        with folders.selection_lock(identity.home):
            found = identity.find_run()
            if found.folder is None:
                info = self._new_info(rows, cases, found.outdated)
                return folders.create_run(identity.home, info), info, cases
        # Another process has created the run while this one read the data.
        return self._take_folder()

    def _new_info(self, rows: Rows[Any], cases: Cases, outdated: OutdatedRun | None) -> RunInfo:
        """Return what run.json of a new run has."""
        identity = self.identity
        identity.check_output_is_free(outdated)
        if outdated is not None:
            self._borrowed.take_replies_of_outdated_run(outdated)
        info = RunInfo(
            suite=self.spec.suite,
            ask=identity.ask,
            started=time.time(),
            version=assay.__version__,
            total=cases.total,
            command=self._command(),
            spec=msgspec.to_builtins(self.spec),
            parts=msgspec.to_builtins(
                {
                    "ask": identity.ask_parts,
                    "reuse": identity.reuse_identity,
                    "judges": identity.score_parts["models"],
                },
                str_keys=True,
            ),
            facts=rows.facts,
            score_parts=self.suite.parts,
            shard=identity.shard,
            replaces=self._borrowed.replaced_name,
        )
        # The identity of a function contains the values of its module, which may have read a secret. Flags that
        # assay ignores may have one, too.
        return self._opened.redactor.redacted(info)

    def _command(self) -> list[str]:
        """Return the command line for run.json."""
        # Arguments that are not UTF-8 contain surrogates, which JSON cannot encode.
        return [word.encode(errors="replace").decode() for word in self._command_words]
