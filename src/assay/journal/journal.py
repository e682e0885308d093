"""The journal of an open run: `calls.jsonl`, `records.jsonl` and `scores.jsonl`.

Lines are only appended. A reply is logged before its case gets it. A case counts as done when its end is written.
All reports and result files are computed from these three files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from assay.core.error_counts import with_place
from assay.core.errors import AssayError
from assay.core.types import ASK, Call, End, Record, Score
from assay.files.plain_files import is_plain
from assay.files.redact import Redactor
from assay.journal.calls import CallReader, ReusableCalls
from assay.journal.disk_reserve import DiskReserve
from assay.journal.index import ASK_CALL, INFRA_ERROR, OK, SHARED_CALL, SUBJECT_ERROR, RunIndex
from assay.journal.line_types import CALLS, RECORDS, SCORES
from assay.journal.lines import JournalFile, SyncThread, run_id
from assay.journal.reader import RunReader
from assay.journal.repair import Repair, reopen_cases, repair
from assay.journal.run_files import FILES
from assay.journal.sidecar import MIN_LINES

# Characters of a failure's message in summary.json. The end of the case has all of it.
_MAX_FAILURE_MESSAGE = 500
Replies = dict[tuple[str, str, int], Call]
"""Logged calls by (stage, hash, n)."""
LineT = TypeVar("LineT", Record, Score)
CallSoon = Callable[[Callable[[], None]], object]
"""Calls a function shortly after, in the same thread: `call_soon` of an event loop."""


class Journal:
    """Appends to a run, and knows which cases have ended. Only one process and one thread may write.

    `run` is the id of the run, if there is no `run.json`. Opening repairs damaged files; `repairs` says what was wrong.
    Lines that the index's sidecar covers are not verified now: they are verified when they are read, which raises
    DamagedRun.
    """

    def __init__(
        self,
        folder: Path,
        scorers: list[str],
        secrets: list[str],
        run: str = "",
        *,
        lost_lines: bool = False,
        reserve: DiskReserve | None = None,
    ) -> None:
        """With `lost_lines`, lines are missing at the end of a file: see `reopen_cases`.

        `reserve` is what the run has reserved on its disk. The caller closes it after the journal.
        """
        self.folder = folder
        run = run or run_id(folder)
        self.repairs: list[Repair] = []
        self.index = RunIndex.of_run(folder)
        if self.index.damage:
            self.repairs = repair(folder, self.index)
        if lost_lines and not self.repairs and is_plain(folder / RECORDS):
            reopen_cases(folder)
        if self.repairs or lost_lines:
            self.index = RunIndex.of_run(folder, verify=True)
        self._redact = redact = Redactor(secrets)
        self._calls, self._records, self._scores = [JournalFile(folder / name, redact, run, reserve) for name in FILES]
        self._reserve = reserve
        self._scorers = [self.index.stage(scorer) for scorer in scorers]
        self._has_replies = False
        self._call_places = self._unfinished_calls()
        self._call_reader = CallReader(folder)
        self._shared_replies: ReusableCalls | None = None
        self._open_calls: dict[int, list[int]] | None = None
        self._count = len(self.index.call_offsets) + len(self.index.ask.codes)  # calls and cases
        self._next_save = self._save_after()
        self._saved_positions: dict[str, int] = {}
        self._call_soon: CallSoon | None = None
        self._unwritten: list[tuple[JournalFile, End, int, int]] = []
        self._on_error: Callable[[BaseException], object] | None = None
        self._write_error: BaseException | None = None
        self._syncer = SyncThread([self._calls, self._records, self._scores])
        self.reader = RunReader(folder, self.index)

    @property
    def empty(self) -> bool:
        """Whether the run has no reply and no case that ended, not even a case whose records were lost since."""
        index = self.index
        return not (self._has_replies or self._call_places or len(index.ask.codes) or index.tries)

    def _unfinished_calls(self) -> dict[int, list[int]]:
        """Return the offsets of calls that may be replayed, by case index."""
        places: dict[int, list[int]] = {}
        index, codes = self.index, self.index.ask.codes
        ended = len(codes)
        # The solver and the scorers of a case that is done never run again.
        done = self.done_map(ended, retry_failed=True)
        for case, kind, offset in zip(index.call_cases, index.call_kinds, index.call_offsets, strict=True):
            if kind == SHARED_CALL:
                self._has_replies = True  # `shared_replies` finds these by request
            # The solver of a case with status ok never runs again, so its calls are not needed. Its scorers may.
            elif case >= ended or not (done[case] or (codes[case] == OK and kind == ASK_CALL)):
                places.setdefault(case, []).append(offset)
        return places

    def replies(self, index: int, stage: str, last_try: int) -> Replies:
        """Return the calls that a try of a case may replay.

        Of tries that ended these are the replies: a new try sends the failed calls again. A try that was interrupted
        continues with all of its calls, but for an endpoint's failure at its very end: whoever starts the run again
        wants it asked again. After an earlier failure the case went on, and its later replies fit only that. With
        `keep_open_calls`, all calls of this start are returned too: a case that lost its worker goes on.
        """
        replies: Replies = {}
        earlier = [self._call_reader.call(offset) for offset in self._call_places.get(index, ())]
        earlier = [call for call in earlier if call.stage == stage]
        for position, call in enumerate(earlier, 1):
            failure = call.failure
            if failure is None or (
                call.try_ > last_try and (failure.status == "subject_error" or position < len(earlier))
            ):
                replies[call.stage, call.hash, call.n] = call
        for offset in (self._open_calls or {}).get(index, ()):
            call = self._call_reader.call(offset)
            if call.stage == stage and (call.failure is None or call.try_ > last_try):
                replies[call.stage, call.hash, call.n] = call
        return replies

    def keep_open_calls(self) -> None:
        """Remember where the calls of each open case are, for a case that may lose its worker and begin again."""
        self._open_calls = {}

    def shared_replies(self) -> ReusableCalls | Replies:
        """Return the replies of earlier starts at the shared endpoint."""
        if not self._has_replies:
            return {}
        if self._shared_replies is None:
            self._shared_replies = ReusableCalls(self.folder)
        return self._shared_replies

    def done_map(self, total: int, *, retry_failed: bool) -> bytes:
        """Return a byte per case: 1 if the case is solved and scored, else 0."""
        final = {OK} if retry_failed else {OK, SUBJECT_ERROR}
        done = _ones(self.index.ask.codes, final, total)
        for stage in self._scorers:
            done &= _ones(stage.codes, {OK}, total)
        return done.to_bytes(total, "little")

    def solved(self, index: int, *, retry_failed: bool) -> bool:
        """Return whether the solver need not run (again) for this case."""
        code = self.index.ask.code(index)
        return code == OK or (code == SUBJECT_ERROR and not retry_failed)

    def last_try(self, index: int) -> int:
        """Return the number of tries of this case that have ended."""
        return self.index.tries.get(index, 1 if self.index.ask.code(index) else 0)

    def counts(self, total: int) -> dict[str, int]:
        """Return the number of cases by status."""
        codes = self.index.ask.codes[:total]
        return {
            "ok": codes.count(OK),
            "subject_error": codes.count(SUBJECT_ERROR),
            "infra_error": codes.count(INFRA_ERROR),
        }

    def failures(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number of failed cases by kind of failure, and the message of the first failure of each kind.

        The most frequent kind comes first.
        """
        kinds: Counter[str] = Counter()
        messages: dict[str, str] = {}
        for index, code in enumerate(self.index.ask.codes):
            if code not in (0, OK):
                end = self.reader.end(index)
                failure = end.failure if end else None
                kind = failure.kind if failure else "unknown"
                kinds[kind] += 1
                if failure:
                    messages.setdefault(kind, failure.message[:_MAX_FAILURE_MESSAGE])
        return dict(kinds.most_common()), messages

    def failed_calls(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number of failed calls by kind of failure, and the message of the first one of each kind.

        A case may end well without the reply: a memory test has an empty answer then, a judge an invalid verdict.
        """
        failed = self.index.failed_calls
        counts = {kind: calls.count for kind, calls in failed.items()}
        messages: dict[str, str] = {}
        for kind, calls in failed.items():
            failure = self._call_reader.call(calls.first).failure
            messages[kind] = with_place(failure)[:_MAX_FAILURE_MESSAGE] if failure else ""
        return counts, messages

    # On a full disk a line goes into the room that the run has reserved. `_reserve.stop` then ends the run, after the
    # line is written and counted.

    def call(self, call: Call) -> Call:
        """Log one call and return it without secrets. The case must get this call: a replay would give it the same."""
        self._has_replies = self._has_replies or call.failure is None
        offset, call = self._calls.add(call)
        self._calls.write()
        self.index.add_call(call, offset)
        self._count += 1
        if self._open_calls is not None and call.stage == ASK:
            self._open_calls.setdefault(call.index, []).append(offset)
        self.index.positions[CALLS] = self._calls.size
        if self._reserve is not None and self._reserve.stop is not None:
            raise self._reserve.stop
        return call

    def write_records(self, records: Sequence[Record]) -> tuple[list[int], list[Record]]:
        """Write records of an open try. Returns their offsets, for the case's end, and the records without secrets."""
        self.flush()
        mark = self._records.mark()
        try:
            added = [self._records.add(record) for record in records]
        except BaseException:
            self._records.drop(mark)
            raise
        self._records.write()
        self.index.counts[RECORDS].add(len(added), 0, 0)
        if self._reserve is not None and self._reserve.stop is not None:
            raise self._reserve.stop
        return [offset for offset, _ in added], [record for _, record in added]

    def without_secrets(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return records as they will be read. The same ones if the environment has no secrets."""
        return [self._redact.redacted(record) for record in records] if self._redact else records

    def group_commits(self, call_soon: CallSoon, on_error: Callable[[BaseException], object]) -> None:
        """Write the ends of cases and scorings in groups, each with all that come until `call_soon` calls.

        A group costs one write for each file. Until it is written, its cases have not ended: a kill in between makes
        them run again, with the replies of the log, which never wait. With an event loop that is a millisecond or so.
        `on_error` gets the error of a group that cannot be written.
        """
        self._call_soon = call_soon
        self._on_error = on_error

    def end_groups(self) -> None:
        """Write the last group. From now on every end is written at once. Raises StopRun as `flush` does."""
        self._call_soon = None
        self.flush()

    def end_case(self, end: End, last: Sequence[Record] = ()) -> tuple[End, list[Record]]:
        """Commit a case. `last` are its records that are not written yet; all go into one write.

        Returns the end and these records without secrets, as a scorer that reads them later gets them.
        """
        if self._open_calls is not None:
            self._open_calls.pop(end.index, None)
        self._count += 1
        return self._commit(self._records, end, last)

    def end_scoring(self, end: End, scores: Sequence[Score]) -> None:
        """Commit the scores of one scorer for a case."""
        self._commit(self._scores, end, scores)

    def _commit(self, file: JournalFile, end: End, last: Sequence[LineT]) -> tuple[End, list[LineT]]:
        if self._write_error is not None:
            raise self._write_error
        lines = list(last)
        mark = file.mark()
        try:
            if lines:
                for number in range(len(lines) - 1):
                    offset, lines[number] = file.add(lines[number])
                    end.lines.append(offset)
                # The commit is a field of the last line. As a separate line it would double the lines of most runs.
                offset, written = file.add(lines[-1], end.commit)
                if written is not lines[-1] and written.end is not None:
                    lines[-1] = replace(written, end=None)
                    end = replace(end, failure=written.end.failure, label=written.end.label, tags=written.end.tags)
            else:
                offset, end = file.add(end)
        except BaseException:
            file.drop(mark)
            raise
        self._unwritten.append((file, end, offset, len(lines) or 1))
        if self._call_soon is None:
            self.flush()
        elif len(self._unwritten) == 1:
            self._call_soon(self._flush_group)
        return end, lines

    def _flush_group(self) -> None:
        try:
            self.flush()
        except BaseException as error:  # noqa: BLE001 - an event loop that gets it would end without the cases
            if self._on_error is not None:
                self._on_error(error)

    def flush(self) -> None:
        """Write the ends that are not written yet. Raises StopRun if that fails, and from then on for every end.

        Then the index has none of these ends, and no line follows the gap. Raises StopRun also if the lines were
        written into the reserved room.
        """
        if self._write_error is not None:
            raise self._write_error
        unwritten, self._unwritten = self._unwritten, []
        if not unwritten:
            return
        try:
            # The records first: a score in the file has its case in the file.
            self._records.write()
            self._scores.write()
            index = self.index
            for file, end, offset, lines in unwritten:
                index.add(end, offset, file.name, lines)
            index.positions[RECORDS] = self._records.size
            index.positions[SCORES] = self._scores.size
        except BaseException as error:
            self._write_error = error
            raise
        if self._count >= self._next_save:
            self._save_index()
        if self._reserve is not None and self._reserve.stop is not None:
            raise self._reserve.stop

    def _save_after(self) -> int:
        """Return the number of calls and cases at which the index is saved again: a quarter more than it has now."""
        return max(MIN_LINES, self._count + self._count // 4)

    def save_index(self) -> None:
        """Save the index of a large run, unless it is saved already.

        A finished run is not opened again. So this comes before its summary: a kill in between leaves a run that the
        next start finishes, and no half of an index.
        """
        if self._count >= MIN_LINES and self._saved_positions != self.index.positions:
            self._save_index()

    def _save_index(self) -> None:
        self.index.save(self.folder)
        self._saved_positions = dict(self.index.positions)
        self._next_save = self._save_after()

    def close(self) -> None:
        """Write the last ends, save the index of a large run, and sync and close the files."""
        with suppress(AssayError):  # whoever runs the cases has been told
            self.end_groups()
        self.save_index()
        self._syncer.close()
        for file in (self._calls, self._records, self._scores):
            file.close()
        self.reader.close()
        self._call_reader.close()
        if self._shared_replies:
            self._shared_replies.close()


def _ones(codes: bytearray, wanted: set[int], total: int) -> int:
    """Return the codes as one big integer: byte 1 where a code is wanted, else 0. `&` combines stages fast."""
    table = bytes(1 if code in wanted else 0 for code in range(256))
    return int.from_bytes(codes[:total].translate(table), "little")
