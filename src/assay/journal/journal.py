"""The journal of an open run: what was asked, what came of it, what it was worth.

`calls.jsonl`, `records.jsonl` and `scores.jsonl` only grow. A reply is logged before its case sees it; a case
counts when its end is written. Everything else a run shows is a reading of these three files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from msgspec.structs import replace

from assay.core.errors import Problem
from assay.core.types import ASK, NO_CASE, Call, Commit, End, Record, Score
from assay.journal.files import AppendFile, Syncer
from assay.journal.folder import FILES
from assay.journal.reader import CallReader, RunReader
from assay.journal.redact import Redactor
from assay.journal.reuse import CommonReplies
from assay.journal.scan import INFRA_ERROR, OK, SUBJECT_ERROR, Index, call_decoder, decoded_blocks, spent

Replies = dict[tuple[str, str, int], Call]
"""(stage, hash, n) of what was asked before."""


class Journal:
    """Appends to a run and answers what has ended. One process, one thread writes."""

    def __init__(self, folder: Path, scorers: list[str], secrets: list[str]) -> None:
        self.folder = folder
        redact = Redactor(secrets)
        self._calls, self._records, self._scores = [AppendFile(folder / name, redact) for name in FILES]
        self.index = Index([ASK, *scorers])
        self.index.scan(self._records.path)
        self.index.scan(self._scores.path)
        self._told = False
        self._asked = self._unfinished_calls()
        self._call_reader = CallReader(folder)
        self._common: CommonReplies | None = None
        self._syncer = Syncer([self._calls, self._records, self._scores])
        self.reader = RunReader(folder, self.index)

    @property
    def problems(self) -> list[Problem]:
        """Damaged lines that were found on opening."""
        return self.index.problems

    @property
    def empty(self) -> bool:
        """Whether no reply was ever recorded."""
        return not self._told and not self._asked and not len(self.index.ask.codes)

    def _unfinished_calls(self) -> dict[int, list[int]]:
        """Places of the calls whose case may be run again: those not ended well."""
        asked: dict[int, list[int]] = {}
        bad: set[int] = set()
        answered = self.index.ask.codes
        known = len(answered)
        for begin, values in decoded_blocks(self._calls.path, bad, call_decoder):
            offset = begin
            for size, line in values:
                if line is None:
                    pass
                elif line.index == NO_CASE:
                    self._told = True  # `common` finds these by request
                # Calls of an answered case are not needed again, but for those of its scorers.
                elif line.index >= known or answered[line.index] != OK or line.stage != ASK:
                    asked.setdefault(line.index, []).append(offset)
                offset += size
        self.index.name(self._calls.path, bad, "is damaged; it counts as never asked")
        return asked

    def replies(self, index: int, stage: str, last_try: int) -> Replies:
        """What an earlier try was told. Of tries that ended, only good replies; of the open one, all."""
        found: Replies = {}
        for offset in self._asked.get(index, ()) if self._asked else ():
            call = self._call_reader.call(offset)
            if call is None:
                continue
            good = call.response is not None
            if call.stage == stage and (good or call.try_ > last_try):
                found[call.stage, call.hash, call.n] = call
        return found

    def common(self) -> CommonReplies | Replies:
        """What the run was told at the address that all its cases share, by request and count."""
        if not self._told:
            return {}
        self._common = self._common or CommonReplies(self.folder)
        return self._common

    def done_map(self, total: int, *, retry_failed: bool) -> bytes:
        """A byte for each case: 1 where nothing is left to do in any stage."""
        wanted = b"\x01" if retry_failed else b"\x01\x02"
        done = _ones(self.index.ask.codes, wanted, total)
        for name, stage in self.index.stages.items():
            if name != ASK:
                done &= _ones(stage.codes, b"\x01", total)
        return done.to_bytes(total, "little")

    def asked(self, index: int, *, retry_failed: bool) -> bool:
        """Whether the case need not be asked (again)."""
        code = self.index.ask.code(index)
        return code == 1 or (code == SUBJECT_ERROR and not retry_failed)

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
        return spent(self._calls.path)

    def failures(self) -> dict[str, int]:
        """Cases without an answer by the kind of failure."""
        kinds: Counter[str] = Counter()
        for index, code in enumerate(self.index.ask.codes):
            if code not in (0, OK):
                end = self.reader.end(index)
                kinds[end.failure.kind if end and end.failure else "unknown"] += 1
        return dict(kinds.most_common())

    def call(self, call: Call) -> None:
        """Log one call. Whoever asked hears of the reply only after this."""
        self._told = self._told or call.response is not None
        self._calls.append([self._calls.encode(call)])

    def written(self, records: Sequence[Record]) -> list[int]:
        """Write records of an open try at once; returns their places, which the end will name."""
        lines = list(map(self._records.encode, records))
        places = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=self._records.size))
        self._records.append(lines)
        return places

    def end(self, end: End, last: Sequence[Record] = ()) -> None:
        """Commit a case, with records that were not written yet, in one write."""
        self._commit(self._records, end, last)

    def scored(self, end: End, scores: Sequence[Score]) -> None:
        """Commit what one scorer said of a case."""
        self._commit(self._scores, end, scores)

    def _commit(self, file: AppendFile, end: End, last: Sequence[Record | Score]) -> None:
        if not last:
            self.index.end(end, file.append([file.encode(end)]))
            return
        *others, final = last
        lines = [file.encode(line) for line in others]
        at = file.size
        for line in lines:
            end.lines.append(at)
            at += len(line) + 1
        lines.append(file.encode(replace(final, end=_commit_of(end))))
        self.index.end(end, file.append(lines))

    def close(self) -> None:
        """Sync and let go of the files."""
        self._syncer.close()
        for file in (self._calls, self._records, self._scores):
            file.close()
        self.reader.close()
        self._call_reader.close()
        if self._common:
            self._common.close()


def _commit_of(end: End) -> Commit:
    return Commit(
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


def _ones(codes: bytearray, wanted: bytes, total: int) -> int:
    """The codes as one number with a 1 in each byte that holds a wanted code: `&` joins stages."""
    table = bytes(1 if code in wanted else 0 for code in range(256))
    return int.from_bytes(codes[:total].translate(table), "little")
