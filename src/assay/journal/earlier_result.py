"""The result that a run has when a start begins. It is given back if the start cannot replace it.

    earlier = EarlierResult(run)                        # reads summary.json
    earlier.begin(score, asks_nothing=True, has_all_lines=True)
    earlier.begin_files()                               # the start has its scores, and writes result files now
    earlier.restore(spending)                           # the start failed

A start that replaces only the scores of a whole run leaves the earlier scoring its result: first as it is, and while
result files are written as copies. Every other start sets the state in summary.json to "unfinished" at once. What it
was comes back only if the start had nothing to ask and has touched no result file.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from assay.core.errors import StopRun
from assay.journal.earlier import keep_scoring
from assay.journal.lines import run_id
from assay.journal.run_files import (
    ROWS,
    Summary,
    result_digests,
    time_finished,
    usable_summary,
    write_summary,
    write_summary_at,
)
from assay.journal.spending import Spending


class _Result(NamedTuple):
    """A summary, and when its result files were written."""

    summary: Summary
    written_ns: int


class EarlierResult:
    """The summary of a run before this start, and what has become of it."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.summary = usable_summary(run)
        """None if the run is new, or its summary is damaged."""
        self._is_complete = False  # no answer is missing, and no line is lost
        self._stays = False
        self._copied: Summary | None = None  # the scoring that is replaced, with copies of its result files
        self._result: _Result | None = None

    @property
    def can_be_restored(self) -> bool:
        """Whether the run still has an earlier result, as it was or as copies."""
        return self._result is not None

    def begin(self, score: str, *, asks_nothing: bool, has_all_lines: bool) -> None:
        """Note in summary.json that a start has begun. Raises StopRun on a full disk.

        `score` is the fingerprint of the new scoring. `asks_nothing` says that only scores and files are left, and
        `has_all_lines` that no line of the journal is lost.
        """
        self._is_complete = asks_nothing and has_all_lines
        before = self.summary
        # The start that was killed while "unfinished" has kept the scoring before it asked anything.
        if before is not None and before.report is not None and before.state != "unfinished" and before.score != score:
            self._copied = keep_scoring(self._run, before)
        self._stays = self._copied is not None and self._is_complete
        if before is not None and self._stays:
            self._mark_scoring(before)
        else:
            self._mark_unfinished()

    def lose_lines(self) -> None:
        """End the earlier result: the journal was repaired, and cases of lost lines have no answer or no score."""
        self._stays = self._is_complete = False
        self._mark_unfinished()

    def begin_files(self) -> None:
        """From here on result files are replaced one by one. Until the last one is, the copies are the result."""
        if self._stays and self._copied is not None:
            self._mark_scoring(self._copied)
        else:
            self._result = None

    def restore(self, spending: Spending | None = None) -> None:
        """Write the result back, if the run still has it.

        `spending` counts the calls of this start too; without it the start made none.
        """
        if self._result is None:
            return
        before, written_ns = self._result
        # A start may have replaced the stored rows, because gold values have changed.
        digests = before.digests | result_digests(self._run)
        summary = replace(before, digests=digests, scoring_again=False)
        if spending is not None:
            summary = summary.with_spending(spending)
        with suppress(StopRun):  # a full disk
            write_summary(self._run, summary)
            self._keep_time(written_ns)

    def _mark_unfinished(self) -> None:
        before = self.summary
        if before is None:
            return
        written_ns = time_finished(self._run)
        write_summary(self._run, replace(before, state="unfinished"))
        # With new replies or lost lines, the earlier numbers are no longer those of the journal.
        is_result = before.state == "finished" and self._is_complete
        self._result = _Result(before, written_ns) if is_result else None

    def _mark_scoring(self, summary: Summary) -> None:
        """Note that a run is being scored again, and that `summary` stays its result until then."""
        written_ns = time_finished(self._run)
        # The start may replace the stored rows, if gold values have changed.
        digests = {name: digest for name, digest in summary.digests.items() if name != ROWS}
        # The sizes of the journal stay those of the present scoring.
        write_summary_at(self._run, replace(summary, scoring_again=True, digests=digests), run_id(self._run))
        self._keep_time(written_ns)
        self._result = _Result(summary, written_ns)

    def _keep_time(self, written_ns: int) -> None:
        """Let summary.json look as old as the result files: `is_overwritten` compares these times."""
        os.utime(self._run / "summary.json", ns=(written_ns, written_ns))
