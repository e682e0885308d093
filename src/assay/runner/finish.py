"""The end of a run: the suite writes its files, then summary.json is written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.errors import AssayError, InputError, Problem, StartInterrupted, StopRun, cannot_write
from assay.core.report import CaseCounts, Report
from assay.core.suite import Outcome, RunFacts
from assay.core.suite_pages import damage_of
from assay.core.types import BAD_CASE
from assay.engine.cases import CaseResults, Cases
from assay.files.write import close_to_others
from assay.journal.earlier_result import EarlierResult
from assay.journal.folder import RunFolder
from assay.journal.journal import Journal
from assay.journal.run_files import RunInfo, Summary, copy_to_newest, result_digests, write_summary
from assay.runner.identity import RunIdentity
from assay.runner.opened import OpenedRun
from assay.runner.results import Run
from assay.runner.summary import complete_report, make_summary
from assay.usercode.errors import UserCodeError


class StartCounts(Struct):
    """What one start of a run counted."""

    spent: dict[str, int] = field(default_factory=dict)
    """Calls and tokens of this start, as `CallLedger.counts` returns them."""
    unscored: int = 0
    """Cases of which a scorer failed, for example because a judge did not answer."""
    ran_on: str = ""
    """Where the cases ran if not in this process, such as `4 workers of Ray`; else where earlier ones did."""


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
        earlier: EarlierResult,
    ) -> None:
        self._opened = opened
        self._identity = identity
        self._folder = folder
        self._info = info
        self._cases = cases
        self._journal = journal
        self._counts = counts
        self._earlier = earlier

    def complete(self, seconds: float) -> Run:
        """Let the suite write its files, then write summary.json.

        The summary comes last, because its state "finished" means that all result files are complete. If the files
        of a new scoring cannot be written, the earlier one stays the run's result.
        """
        journal, suite = self._journal, self._opened.suite
        results = self._cases.results(journal.reader, [scorer.id for scorer in suite.scorers])
        self._earlier.begin_files()
        try:
            outcome = self._write_files(results, seconds)
        except AssayError:
            self._earlier.restore(journal.index.spent)
            raise
        except OSError as error:
            return self.stop(seconds, cannot_write(error.filename or self._opened.spec.output_dir, error))
        if self._identity.shard is not None:
            outcome.report.notices.insert(0, _shard_notice(self._cases))
        _name_subjects(outcome.report, suite.subjects())
        complete_report(outcome.report, self._case_counts(), results.errors)
        if self._opened.trusted:
            # Only the suite's notices: the printer prints report.notices each time it prints the report.
            self._opened.notice(suite.on_report(outcome.report))
        summary = self._summary(seconds, None, outcome)
        summary.digests = result_digests(self._folder.path, outcome.files)
        summary = self._opened.redactor.redacted(summary)
        self._write_summary(summary)
        return self._run(summary)

    def stop(self, seconds: float, error: BaseException) -> Run:
        """End a start that an error stopped. Raises the error, unless the same command continues after it."""
        journal = self._journal
        # If only scoring was left, for example by another judge, its failure leaves the run finished, with the earlier
        # scores and files.
        self._earlier.restore(journal.index.spent)
        goes_on = isinstance(error, (StopRun, KeyboardInterrupt))
        if not goes_on or (isinstance(error, StartInterrupted) and self._folder.is_new):
            raise error
        summary = self._opened.redactor.redacted(self._summary(seconds, error))
        if not self._earlier.can_be_restored:
            with suppress(StopRun):  # a full disk: `error` has the cause
                self._write_summary(summary)
        return self._run(summary, error)

    def _write_files(self, results: CaseResults, seconds: float) -> Outcome:
        """Let the suite write its files.

        Raises OSError, DamagedRun for records that no suite writes, and InputError for an exception of a user's suite.
        """
        opened, run = self._opened, self._folder.path
        if self._identity.shard is not None and not self._cases.total:
            return Outcome(Report())  # files and numbers of no case would look like a failure
        # Records of a run that this command did not make may have forms that no suite writes.
        try:
            with nullcontext() if opened.trusted else damage_of(str(run)):
                outcome = opened.suite.finish(results, RunFacts(self._info.started, seconds, run))
        except (AssayError, OSError):
            raise
        except (Exception, SystemExit) as error:
            raised = UserCodeError.of(error)
            if not raised.where:  # no line of a user's file: a mistake of assay, which needs its traceback
                raise
            message = f"`finish` raised {raised.raised}. The replies are kept: when it is mended, add --reuse {run}"
            raise InputError(Problem(self._info.suite, opened.redactor.clean(message))) from error
        for path in outcome.files:
            # Replies are redacted in the journal; rows of the data reach the files on their own way.
            opened.redactor.redact_file(path)
            close_to_others(path)
        return outcome

    def _write_summary(self, summary: Summary) -> None:
        self._journal.save_index()
        write_summary(self._folder.path, summary)
        copy_to_newest(self._folder.path, summary)

    def _run(self, summary: Summary, error: BaseException | None = None) -> Run:
        reason = self._opened.redactor.clean(str(error)) if error is not None else ""
        return Run(self._folder.path, self._info, summary, summary.exit_code, reason=reason)

    def _summary(self, seconds: float, stopped: BaseException | None, outcome: Outcome | None = None) -> Summary:
        """Return the summary of the run as it is now. Without an outcome it has no report and no files."""
        journal, cases = self._journal, self._cases
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
                for name, count in self._counts.spent.items()
                if not name.endswith("_tokens") or not self._counts.spent["paid"] or self._counts.spent["input_tokens"]
            },
            files=[str(path) for path in outcome.files] if outcome else [],
            first_failures=first_failed_calls | summary.first_failures,
            failed_calls=failed_calls,
            newest=str(outcome.newest or "") if outcome else "",
            unscored=self._counts.unscored,
            ran_on=self._counts.ran_on,
            adapted=journal.index.spent.adapted,
        )

    def _case_counts(self) -> CaseCounts:
        journal, cases = self._journal, self._cases
        counts = journal.counts(cases.slots)
        # Subtracted from the total, because cases that never ran are not counted: `assay rescore` runs no cases.
        unanswered = cases.total - counts["ok"] - counts["subject_error"] + self._counts.unscored
        invalid, why = 0, ""
        if counts["infra_error"]:
            failures, first_failures = journal.failures()
            invalid, why = failures.get(BAD_CASE, 0), first_failures.get(BAD_CASE, "")
        return CaseCounts(cases.total, counts["ok"], unanswered, invalid, why)


def _name_subjects(report: Report, subjects: Sequence[str]) -> None:
    """Fill in the subject of an entry that a user's suite has tied to one of several subjects by its name alone."""
    for entry in report.entries:
        if len(subjects) > 1 and not entry.subject and not entry.members and entry.name in subjects:
            entry.subject = entry.name


def _shard_notice(cases: Cases) -> str:
    """Return the sentence of a report that says which part of the run it is about."""
    if not cases.total:
        return f"{cases.part}. There are more shards than rows: this one has nothing to do, and is complete"
    return f"{cases.part}. Numbers and files are those of these cases; `assay merge` makes one run of all shards"
