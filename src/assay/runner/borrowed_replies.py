"""Replies of other runs to equal requests, which are taken instead of asking again.

They are those of the run of `--reuse`, or of the run that this one replaces, because a file of its code has changed or
`assay rerun --failed` was typed; else those of similar runs.
"""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import AssayError
from assay.journal import folder as folders
from assay.journal.calls import ReusableCalls
from assay.journal.folder import HOME
from assay.journal.run_files import RunInfo, read_info
from assay.runner.identity import OutdatedRun, RunIdentity, names_of
from assay.runner.opened import OpenedRun
from assay.store.runs import find_run
from assay.usercode.opened_files import CODE_FILES, outdated_files

# Runs whose replies are taken without --reuse. Each of them is read as a whole at the start.
_MAX_SIMILAR_RUNS = 4


class BorrowedReplies:
    """The runs whose replies this one takes."""

    def __init__(self, opened: OpenedRun, identity: RunIdentity) -> None:
        self._opened = opened
        self._identity = identity
        spec = opened.spec
        self._reused = [find_run(spec.reuse, other_than=f"-{identity.ask}")] if spec.reuse else []
        self.replaced: Path | None = None
        """The run that this one replaces: it asks nearly the same."""

    @property
    def replaced_name(self) -> str:
        """The replaced run, for run.json: its name if it is a neighbour, else its path. Empty if there is none."""
        if self.replaced is None:
            return ""
        is_neighbour = self.replaced.parent.resolve() == self._identity.home.resolve()
        return self.replaced.name if is_neighbour else str(self.replaced.resolve())

    def continue_run(self, info: RunInfo) -> None:
        """Take the replies that the first start of a run has taken: that start may have been stopped."""
        if info.replaces:
            self.replaced = self._identity.home / info.replaces

    def take_replies_of_outdated_run(self, outdated: OutdatedRun) -> None:
        """Tell why this is another run than the newest one that asks the same, and take the replies of that."""
        run, changed = outdated
        reason = (
            f"{names_of(changed)}, which the code of the run reads, changed since {run.name}, so this is another run"
        )
        if self._opened.suite.roles and not self._opened.has_python_model:
            self.replaced = self.replaced or run
            reason += f". It takes the replies to equal requests from {self.replaced.name}"
        self._opened.notice([reason])

    def calls(self, own: Path, *, is_complete: bool) -> list[ReusableCalls]:
        """Return the calls of the runs whose replies to equal requests are taken. `own` is this run's folder.

        Replies that may be outdated are left out. `is_complete` says that no case is left to run.
        """
        runs = [*self._reused, *self._replaced_runs(is_complete=is_complete)] or self._similar_runs(own)
        usable: list[ReusableCalls] = []
        for run in runs:
            if self._opened.has_python_model and (changed := outdated_files(run / CODE_FILES)):
                why = f"{names_of(changed)} changed since, and a model that is Python code may have read it"
                self._opened.notice([f"no reply of {run.name} is reused: {why}"])
            else:
                usable.append(ReusableCalls(run))
        return usable

    def _replaced_runs(self, *, is_complete: bool) -> list[Path]:
        """Return the replaced run, the one that it replaced, and so on: each may have been stopped early."""
        runs: list[Path] = []
        run = self.replaced
        while run is not None and run not in runs:
            if not folders.is_run_folder(run):
                if not is_complete:
                    self._opened.notice([f"{run} is gone. Its replies, which this run took, are requested again"])
                break
            runs.append(run)
            try:
                replaced = read_info(run).replaces
            except AssayError:
                break  # a damaged run lends the replies that it has
            run = run.parent / replaced if replaced else None
        return runs

    def _similar_runs(self, own: Path) -> list[Path]:
        """Return the newest runs with the suite's `reuse_identity`: in the output folder, or in folders beside it."""
        if self._identity.reuse_identity is None or self._opened.spec.fresh or not self._opened.asks:
            return []
        homes = [self._identity.home]
        if self._opened.suite.exclusive_output:
            # Such a suite has one run for each output folder, so the runs to compare stand side by side.
            homes += sorted(self._identity.home.parent.parent.glob(f"*/{HOME}"))
        runs = {run.resolve(): None for home in homes for run in folders.runs_of_suite(home, self._opened.spec.suite)}
        similar = [run for run in runs if run != own.resolve() and self._has_same_reuse_identity(run)]
        return sorted(similar, key=lambda run: run.name, reverse=True)[:_MAX_SIMILAR_RUNS]

    def _has_same_reuse_identity(self, run: Path) -> bool:
        """Return whether a run has the same `reuse_identity`. A run that asks all the same is a repeat on purpose."""
        try:
            info = read_info(run)
        except AssayError:
            # A damaged neighbour, or one of another format, lends nothing. It must not stop this run.
            return False
        return info.ask != self._identity.ask and info.parts.get("reuse") == self._identity.reuse_identity
