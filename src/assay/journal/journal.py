"""The journal of an open run: its calls, its records and its scores.

`calls.jsonl`, `records.jsonl` and `scores.jsonl` only grow. A reply is logged before its case sees it. A case
counts when its end is written. Everything else that a run shows is read from these three files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from assay.core.types import ASK, NO_CASE, Call, Commit, End, Record, Score
from assay.journal.calls import CallReader, SharedReplies, call_places, sum_spending
from assay.journal.folder import FILES
from assay.journal.index import INFRA_ERROR, OK, SUBJECT_ERROR, RunIndex
from assay.journal.lines import JournalFile, SyncThread, read_lines
from assay.journal.reader import RunReader
from assay.journal.redact import Redactor

Replies = dict[tuple[str, str, int], Call]
"""Logged calls by (stage, hash, n)."""


class Journal:
    """Appends to a run and tells which cases have ended. One process, one thread writes.

    Opening verifies every line. Raises InputError with the place of the first damaged one.
    """

    def __init__(self, folder: Path, scorers: list[str], secrets: list[str]) -> None:
        self.folder = folder
        redact = Redactor(secrets)
        self._calls, self._records, self._scores = [JournalFile(folder / name, redact) for name in FILES]
        self.index = RunIndex.of_run(folder, scorers)
        self._has_replies = False
        self._call_places = self._unfinished_calls()
        self._call_reader = CallReader(folder)
        self._shared_replies: SharedReplies | None = None
        self._syncer = SyncThread([self._calls, self._records, self._scores])
        self.reader = RunReader(folder, self.index)

    @property
    def empty(self) -> bool:
        """Whether no reply was ever recorded."""
        return not self._has_replies and not self._call_places and not len(self.index.ask.codes)

    def _unfinished_calls(self) -> dict[int, list[int]]:
        """Offsets of the calls of cases that may run again, by case."""
        offsets: dict[int, list[int]] = {}
        codes = self.index.ask.codes
        for offset, line in read_lines(self._calls.path, call_places):
            if line.index == NO_CASE:
                self._has_replies = True  # `shared_replies` finds these by request
            # A case that ended well never asks again, but its scorers may.
            elif line.index >= len(codes) or codes[line.index] != OK or line.stage != ASK:
                offsets.setdefault(line.index, []).append(offset)
        return offsets

    def replies(self, index: int, stage: str, last_try: int) -> Replies:
        """Calls of earlier starts for a case. Of tries that ended only good replies, of the open one all."""
        replies: Replies = {}
        for offset in self._call_places.get(index, ()):
            call = self._call_reader.call(offset)
            if call.stage == stage and (call.response is not None or call.try_ > last_try):
                replies[call.stage, call.hash, call.n] = call
        return replies

    def shared_replies(self) -> SharedReplies | Replies:
        """Replies of earlier starts at the address that all cases share, by request and count."""
        if not self._has_replies:
            return {}
        if self._shared_replies is None:
            self._shared_replies = SharedReplies(self.folder)
        return self._shared_replies

    def done_map(self, total: int, *, retry_failed: bool) -> bytes:
        """A byte for each case: 1 where nothing is left to do in any stage."""
        final = {OK} if retry_failed else {OK, SUBJECT_ERROR}
        done = _ones(self.index.ask.codes, final, total)
        for name, stage in self.index.stages.items():
            if name != ASK:
                done &= _ones(stage.codes, {OK}, total)
        return done.to_bytes(total, "little")

    def asked(self, index: int, *, retry_failed: bool) -> bool:
        """Whether the case need not be asked (again)."""
        code = self.index.ask.code(index)
        return code == OK or (code == SUBJECT_ERROR and not retry_failed)

    def last_try(self, index: int) -> int:
        """How many tries of this case have ended."""
        return self.index.tries.get(index, 1 if self.index.ask.code(index) else 0)

    def counts(self, total: int) -> dict[str, int]:
        """How many cases ended in which way."""
        codes = self.index.ask.codes[:total]
        return {
            "ok": codes.count(OK),
            "subject_error": codes.count(SUBJECT_ERROR),
            "infra_error": codes.count(INFRA_ERROR),
        }

    def spent(self) -> dict[str, int]:
        """What all starts of this run paid for."""
        return sum_spending(self.folder)

    def failures(self) -> dict[str, int]:
        """Cases without an answer by the kind of failure."""
        kinds: Counter[str] = Counter()
        for index, code in enumerate(self.index.ask.codes):
            if code not in (0, OK):
                end = self.reader.end(index)
                kinds[end.failure.kind if end and end.failure else "unknown"] += 1
        return dict(kinds.most_common())

    def call(self, call: Call) -> None:
        """Log one call. Its case sees the reply only after this."""
        self._has_replies = self._has_replies or call.response is not None
        self._calls.add(call)
        self._calls.write()

    def write_records(self, records: Sequence[Record]) -> list[int]:
        """Write records of an open try. Returns their offsets, which the end will name."""
        offsets = [self._records.add(record) for record in records]
        self._records.write()
        return offsets

    def end_case(self, end: End, last: Sequence[Record] = ()) -> None:
        """Commit a case, with its records that were not written yet, in one write."""
        self._commit(self._records, end, last)

    def end_scoring(self, end: End, scores: Sequence[Score]) -> None:
        """Commit the scores that one scorer gave to a case."""
        self._commit(self._scores, end, scores)

    def _commit(self, file: JournalFile, end: End, last: Sequence[Record | Score]) -> None:
        if last:
            for line in last[:-1]:
                end.lines.append(file.add(line))
            # The last line carries the commit. A line of its own would double the lines of most runs.
            commit = Commit(
                end.try_,
                end.status,
                end.lines,
                end.failure,
                end.usage,
                end.calls,
                end.seconds,
                end.label,
                end.tags,
            )
            offset = file.add(replace(last[-1], end=commit))
        else:
            offset = file.add(end)
        file.write()
        self.index.add(end, offset)

    def close(self) -> None:
        """Sync and close the files."""
        self._syncer.close()
        for file in (self._calls, self._records, self._scores):
            file.close()
        self.reader.close()
        self._call_reader.close()
        if self._shared_replies:
            self._shared_replies.close()


def _ones(codes: bytearray, wanted: set[int], total: int) -> int:
    """The codes as one number with a 1 in each byte that holds a wanted code. `&` joins stages."""
    table = bytes(1 if code in wanted else 0 for code in range(256))
    return int.from_bytes(codes[:total].translate(table), "little")
