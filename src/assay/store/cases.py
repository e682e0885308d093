"""Reads single cases of a run: their records, calls and scores.

cases = RunCases(find_run("results"))
view = cases.find("question-17")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from assay.core.errors import DamagedRun, Problem, UsageError
from assay.core.suite_pages import StoredCase, SuitePages
from assay.core.types import JUDGE, Call, End, Failure, Record, Score
from assay.files.plain_files import is_plain, open_plain_file, plain_problem, plain_size, read_plain
from assay.journal.calls import CallReader
from assay.journal.index import OK, RunIndex
from assay.journal.integrity import FINAL_STATES, intact_index
from assay.journal.reader import RunReader
from assay.journal.run_files import ROWS, Summary, read_info, read_summary

__all__ = ["RunCases", "StoredCase", "answer_preview"]

# Bytes at the end of scores.jsonl that are searched for scorers. A line with a judge's reasons can be long.
_TAIL_BYTES = 1 << 20
_ROWS_CHANGED = "the file was changed after it was written. Run the program again, which writes the file again"
_MAX_CHOICES = 10  # cases that an error message lists


class RunCases:
    """The cases of a run, in the order of the data."""

    def __init__(self, folder: Path, index: RunIndex | None = None) -> None:
        """With `index`, the cases are read by an index that is open already and known to be intact."""
        self.folder = folder
        summary = read_summary(folder)
        self._scorers = counted_scorers(folder, summary)
        self._neutral: frozenset[str] = frozenset()
        if summary is not None and summary.report is not None:
            metrics = summary.report.metrics()
            self._neutral = frozenset(metric.name for _, metric in metrics if metric.higher_is_better is False)
        self._index = index or intact_index(folder, summary)
        self._reader = RunReader(folder, self._index)
        self._rows: list[bytes] = []
        self._subjects = 1
        self.gold_columns: frozenset[str] = frozenset()
        """Columns of a row that the evaluated function, prompt or model never received."""
        if (problem := plain_problem(folder / ROWS)) is not None:
            raise DamagedRun(problem)
        if is_plain(folder / ROWS):
            # An evaluation from Python stores its rows here, because there is no data file to read them from.
            facts = _row_facts(folder)
            self._rows = _read_rows(folder / ROWS, summary)
            self._subjects = facts.subjects
            self.gold_columns = facts.gold

    def __iter__(self) -> Iterator[StoredCase]:
        for end in self.ends():
            yield self._view(end)

    @property
    def positions(self) -> range:
        """The positions of all cases up to the last one that has ended. Some of them may not have ended."""
        return range(len(self._index.ask.codes))

    def ended_positions(self) -> list[int]:
        """Return the positions of all cases that have ended."""
        return [index for index, code in enumerate(self._index.ask.codes) if code]

    def positions_without_answer(self) -> list[int]:
        """Return the positions of the cases that ended with an error."""
        return [index for index, code in enumerate(self._index.ask.codes) if code not in (0, OK)]

    def ends(self) -> Iterator[End]:
        """Yield the `end` of each finished case, with its label and tags. Reads one line per case."""
        for index in range(len(self._index.ask.codes)):
            end = self._reader.end(index)
            if end is not None:
                yield end

    def end(self, index: int) -> End:
        """Return how a case ended. Raises UsageError if it has not."""
        end = self._reader.end(index)
        if end is None:
            raise UsageError(f"{self.folder} has no case {index} that has ended")
        return end

    def case(self, index: int) -> StoredCase | None:
        """Return the case with this number, or None if it has not finished."""
        end = self._reader.end(index)
        return self._view(end) if end is not None else None

    def find(self, name: str) -> StoredCase:
        """Return the case that `name` identifies. Raises UsageError if there is none, or more than one.

        These meanings are tried in order: `@4`, the position of a case in the run; its key; its label, also as
        `row LABEL` and `row LABEL with SUBJECT`; the position without the `@`; an id or a part in its scores; the
        beginning of its key. Keys, labels and ids may follow `SET/`. So a number is an id before it is a position.
        """
        number = name.removeprefix("@")
        at_position = self.case(int(number)) if number.isdecimal() else None
        if at_position is not None and name != number:
            return at_position
        set_name, _, key = name.rpartition("/")
        # Reports and lists call a case `row 4 with drawn`. The first word depends on the suite.
        name_without_word = name.partition(" ")[2]
        by_key, by_label, by_prefix = [], [], []
        for end in self.ends():
            if not set_name or end.set == set_name:
                if end.case == key:
                    by_key.append(end)
                elif end.case.startswith(key):
                    by_prefix.append(end)
            names = (end.label, f"{end.label} with {end.subject}", f"{end.set}/{end.label}")
            if end.label and (name in names or name_without_word in names[:2]):
                by_label.append(end)
        ends = by_key or by_label
        if not ends and at_position is not None:
            return at_position
        ends = ends or self._ends_by_scores(name) or by_prefix
        if not ends:
            raise UsageError(
                f"{self.folder} has no case {name!r}. Pass the id of a case in the data, its position as @4, or the "
                f"beginning of its key; `assay show {self.folder}` lists the cases."
            )
        if len(ends) > 1:
            choices = [f"@{end.index} ({end.set}/{end.case}, {end.subject})" for end in ends[:_MAX_CHOICES]]
            raise UsageError(f"{name!r} matches {len(ends)} cases. Pass the position of one: " + ", ".join(choices))
        return self._view(ends[0])

    def calls(self, index: int) -> list[Call]:
        """Return every call of a case. Repeats of a request are adjacent, in order of their number."""
        reader = CallReader(self.folder)
        calls = [reader.call(offset) for offset in self._index.calls(index)]
        reader.close()
        first_seen: dict[tuple[str, str], int] = {}
        for call in calls:
            first_seen.setdefault((call.stage, call.hash), len(first_seen))
        return sorted(calls, key=lambda call: (first_seen[call.stage, call.hash], call.n))

    def earlier_scores(self, index: int) -> dict[str, list[Score]]:
        """Return the scores of a case by scorers that count no more, such as the judge before the last one, by scorer.

        Only scorers of the same name as one that counts: another judge of the same answers.
        """
        names = {scorer.partition("@")[0] for scorer in self._scorers}
        earlier = {}
        for scorer in self._index.stages:
            if scorer not in self._scorers and scorer.partition("@")[0] in names:
                scores = self._reader.scores(index, scorer)
                if scores:
                    earlier[scorer] = scores
        return earlier

    def _view(self, end: End) -> StoredCase:
        number = end.index // self._subjects
        try:
            row = msgspec.json.decode(self._rows[number]) if number < len(self._rows) else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise DamagedRun(Problem(f"{self.folder / ROWS}:{number + 1}", _ROWS_CHANGED)) from None
        return StoredCase(end, self._reader.records(end.index), self._scores(end.index), row=row, neutral=self._neutral)

    def _scores(self, index: int) -> list[Score]:
        scores = []
        for scorer in self._scorers:
            scores += self._reader.scores(index, scorer)
        return scores

    def _ends_by_scores(self, name: str) -> list[End]:
        """Return the cases whose scores have this id, part or label. Reads the scores of all cases, so it is slow."""
        ends = []
        for case in self:
            names = {str(case.id)}
            for score in case.scores:
                names |= {score.part, score.label}
            if name in names or name in {f"{case.end.set}/{each}" for each in names}:
                ends.append(case.end)
        return ends


def answer_preview(pages: SuitePages, failure: Failure | None, records: Sequence[Record], max_chars: int) -> str:
    """Return the beginning of an answer, of the failure, or of the damage of its records, in one line."""
    try:
        text = f"{failure.kind}: {failure.message}" if failure else pages.answer_text(records)
    except DamagedRun as error:
        text = f"damaged: {error}"
    flat = " ".join(text.split())
    return flat if len(flat) <= max_chars else flat[: max_chars - 1] + "…"


class _RowFacts(msgspec.Struct):
    """The facts of `run.json` about the rows in `rows.jsonl`."""

    subjects: Annotated[int, msgspec.Meta(ge=1)]
    gold: frozenset[str]


def _row_facts(folder: Path) -> _RowFacts:
    """Return the facts about the stored rows. Raises DamagedRun for a run that stores none: the file is a stray one."""
    try:
        return msgspec.convert(read_info(folder).facts, _RowFacts)
    except msgspec.ValidationError:
        message = "the file is none of this run, which stores no rows. Remove it"
        raise DamagedRun(Problem(str(folder / ROWS), message)) from None


def _read_rows(path: Path, summary: Summary | None) -> list[bytes]:
    """Return the stored rows of an evaluation. Raises DamagedRun if they are not those of the finished run."""
    content = read_plain(path)
    digest = summary.digests.get(ROWS) if summary and summary.state in FINAL_STATES else None
    if digest is not None and sha256(content).hexdigest() != digest:
        raise DamagedRun(Problem(str(path), _ROWS_CHANGED))
    return content.splitlines()


def counted_scorers(folder: Path, summary: Summary | None) -> list[str]:
    """Return the ids of the scorers whose scores count: those of the summary, else the latest version of each."""
    if summary is not None and summary.scorers:
        return summary.scorers
    path = folder / "scores.jsonl"
    size = plain_size(path)
    if size is None:
        return []  # a damaged run; `intact_index` says so
    with open_plain_file(path) as file:
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    scorers: dict[str, str] = {}
    for line in lines:
        try:
            names = msgspec.json.decode(line, type=_ScorerLine)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The first line may be cut off, the last one may not be complete yet, and `intact_index` names damage.
            continue
        scorer = names.scorer or names.stage
        if scorer:
            scorers[scorer.partition("@")[0]] = scorer
    # The judge scores last in a run, so its scores are shown last too.
    return sorted(scorers.values(), key=lambda scorer: scorer.startswith(f"{JUDGE}@"))


class _ScorerLine(msgspec.Struct):
    """The part of a line in scores.jsonl that names its scorer: a score, or the end of a scorer's stage."""

    scorer: str = ""
    stage: str = ""
