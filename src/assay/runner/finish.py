"""The end of a run: the suite writes its files, then summary.json is written."""

from __future__ import annotations

from contextlib import nullcontext, suppress

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.errors import DamagedRun, StopRun, cannot_write
from assay.core.report import CaseCounts, Report
from assay.core.suite import Outcome, RunFacts
from assay.core.suite_pages import damage_of
from assay.core.types import BAD_CASE
from assay.engine.cases import Cases
from assay.files.write import close_to_others
from assay.journal import folder as folders
from assay.journal.folder import FinishedSummary, RunFolder, RunInfo, Summary
from assay.journal.journal import Journal
from assay.runner.identity import RunIdentity
from assay.runner.opened import OpenedRun
from assay.runner.results import Run
from assay.runner.summary import complete_report, make_summary


class StartCounts(Struct):
    """What one start of a run counted."""

    spent: dict[str, int] = field(default_factory=dict)
    """Calls and tokens of this start, as `CallLedger.counts` returns them."""
    unscored: int = 0
    """Cases whose scoring has no result because a judge did not answer."""
    ran_on: str = ""
    """Where the cases ran if not in this process, such as `4 workers of Ray`."""


class Finish:
    """Ends a start: the result files, the report and the summary of a run."""

    def __init__(
        self,
        opened: OpenedRun,
        identity: RunIdentity,
        folder: RunFolder,
        info: RunInfo,
        cases: Cases,
        journal: Journal,
        counts: StartCounts,
    ) -> None:
        self._opened = opened
        self._identity = identity
        self.folder = folder
        self.info = info
        self.cases = cases
        self.journal = journal
        self.counts = counts

    def stopped(self, seconds: float, error: BaseException) -> Run:
        """Return the run as an error has stopped it. Nothing is written: an earlier result stays the run's result."""
        return self._run(self.summary(seconds, error), error)

    def _run(self, summary: Summary, error: BaseException | None = None) -> Run:
        reason = self._opened.redactor.clean(str(error)) if error is not None else ""
        return Run(self.folder.path, self.info, summary, summary.exit_code, reason=reason)

    def restore(self, earlier: FinishedSummary | None) -> None:
        """Let the earlier scoring be the run's result again, if this start was to replace it."""
        if earlier is not None:
            with suppress(StopRun):  # a full disk
                folders.restore_summary(self.folder.path, earlier, self.journal.spent(), self.journal.costs())

    def finish(self, seconds: float, stopped: BaseException | None, earlier: FinishedSummary | None) -> Run:
        """Let the suite write its files, then write summary.json.

        The summary comes last, because its state "finished" means that all result files are complete. If the files
        cannot be written, `earlier` stays the run's result.
        """
        opened, folder, info, journal, cases = self._opened, self.folder, self.info, self.journal, self.cases
        suite, redactor = opened.suite, opened.redactor
        outcome: Outcome | None = None
        if not stopped:
            facts = RunFacts(info.started, seconds, folder.path)
            scorers = [scorer.id for scorer in suite.scorers]
            results = cases.results(journal.reader, scorers)
            try:
                # Files and numbers of no case would look like a failure.
                is_empty = self._identity.shard is not None and not cases.total
                # Records of a run that this command did not make may have forms that no suite writes.
                with nullcontext() if opened.own_command else damage_of(str(folder.path)):
                    outcome = Outcome(Report()) if is_empty else suite.finish(results, facts)
                for path in outcome.files:
                    # Replies are redacted in the journal; rows of the data reach the files on their own way.
                    redactor.redact_file(path)
                    close_to_others(path)
            except DamagedRun:
                self.restore(earlier)
                raise
            except OSError as error:
                stopped, outcome = cannot_write(error.filename or opened.spec.output_dir, error), None
                if earlier is not None:
                    self.restore(earlier)
                    return self.stopped(seconds, stopped)
        if outcome is not None:
            report = outcome.report
            if self._identity.shard is not None:
                report.notices.insert(0, _shard_notice(cases))
            complete_report(report, self._case_counts(), results.errors)
            if opened.own_command:
                # Only the suite's notices: the printer prints report.notices each time it prints the report.
                opened.notice(suite.on_report(outcome.report))
        summary = self.summary(seconds, stopped, outcome)
        if outcome is not None:
            summary.digests = folders.result_digests(folder.path, outcome.files)
        summary = redactor.redacted(summary)
        journal.save_index()
        try:
            folders.write_summary(folder.path, summary)
            folders.copy_to_newest(folder.path, summary)
        except StopRun:
            # On a full disk the summary cannot be written either. The first error has the cause.
            if not stopped:
                raise
        return self._run(summary, stopped)

    def summary(self, seconds: float, stopped: BaseException | None, outcome: Outcome | None = None) -> Summary:
        """Return the summary of the run as it is now. Without an outcome it has no report and no files."""
        journal, cases = self.journal, self.cases
        summary = make_summary(
            journal,
            self._case_counts(),
            outcome.report if outcome else None,
            slots=cases.slots,
            score=self._identity.score,
            scorers=[scorer.id for scorer in self._opened.suite.scorers],
            seconds=seconds,
            stopped=stopped,
        )
        failed_calls, first_failed_calls = journal.failed_calls()
        return replace(
            summary,
            # The ledger counts tokens that endpoints reported. Without any, they were not measured.
            this_start={
                name: count
                for name, count in self.counts.spent.items()
                if not name.endswith("_tokens") or not self.counts.spent["paid"] or self.counts.spent["input_tokens"]
            },
            files=[str(path) for path in outcome.files] if outcome else [],
            first_failures=first_failed_calls | summary.first_failures,
            failed_calls=failed_calls,
            newest=str(outcome.newest or "") if outcome else "",
            unscored=self.counts.unscored,
            ran_on=self.counts.ran_on,
            **journal.costs(),
            adapted=journal.index.spent.adapted,
        )

    def _case_counts(self) -> CaseCounts:
        journal, cases = self.journal, self.cases
        counts = journal.counts(cases.slots)
        # Subtracted from the total, because cases that never ran are not counted: `assay rescore` runs no cases.
        unanswered = cases.total - counts["ok"] - counts["subject_error"] + self.counts.unscored
        invalid, why = 0, ""
        if counts["infra_error"]:
            failures, first_failures = journal.failures()
            invalid, why = failures.get(BAD_CASE, 0), first_failures.get(BAD_CASE, "")
        return CaseCounts(cases.total, counts["ok"], unanswered, invalid, why)


def _shard_notice(cases: Cases) -> str:
    """Return the sentence of a report that says which part of the run it is about."""
    if not cases.total:
        return f"{cases.part}. There are more shards than rows: this one has nothing to do, and is complete"
    return f"{cases.part}. Numbers and files are those of these cases; `assay merge` makes one run of all shards"
