"""Compares runs of one suite, or subjects of a run, on the cases that they share.

    result = compare(["results-before", "results-now@concise"])
    result.comparisons[0].rows, result.comparisons[0].now_failing

`assay compare --json` prints these structs as JSON, so their field names are part of a format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.imported import is_imported_scorer
from assay.core.judges import JudgeInfo
from assay.core.registry import short
from assay.core.report import PairedRow
from assay.core.types import JUDGE
from assay.journal.columns import UNKNOWN_TOKENS
from assay.store.comparison.columns import (
    CasePairs,
    ComparedRun,
    NameNumbers,
    SubjectColumns,
    pair_cases,
    scorer_name,
)
from assay.store.comparison.rows import (
    FlipReader,
    Flips,
    PairedScores,
    regressions,
    significant_regressions,
    table_rows,
)
from assay.store.judges import with_calibration
from assay.store.runs import RunState, finished_run, split_subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_NAMES = 10  # subjects that an error message lists
# Scores of a run that are searched for a fingerprint of their expected values. One test may have none.
_FIRST_SCORES = 1000


class Side(Struct, kw_only=True):
    """One side of a comparison: a subject of a run."""

    run: str
    folder: str
    suite: str
    subject: str
    model: str
    started: float
    state: str
    cases: int
    scorers: list[str]
    reference: bool = False
    """True if the subject is a reference such as the memory `oracle`."""
    judges: list[JudgeInfo] = field(default_factory=list)
    """The judges behind the scores, with their newest calibrations."""


class OneSided(Struct, kw_only=True):
    """Cases without a partner: their number, and the first of them as `set/key`."""

    count: int = 0
    shown: list[str] = field(default_factory=list)


class Cost(Struct, kw_only=True):
    """Time, tokens and calls of the paired cases of one side, without scoring."""

    seconds_per_case: float
    input_tokens: int | None
    output_tokens: int | None
    """None if the endpoint counted no tokens."""
    calls: int


class Comparison(Struct, kw_only=True):
    """Two subjects on the cases that they share."""

    base: Side
    new: Side
    paired: int
    rows: list[PairedRow]
    now_failing: Flips
    now_passing: Flips
    only_base: OneSided
    only_new: OneSided
    cost: dict[str, Cost]
    notes: list[str]
    regressions: list[str] = field(default_factory=list)
    significant_regressions: list[str] = field(default_factory=list)


class ComparisonResult(Struct, kw_only=True):
    """All comparisons of one command. `schema` is the version of the JSON document."""

    schema: int = 1
    comparisons: list[Comparison]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """A heading for each comparison, and a line for each of its metrics."""
        lines = []
        for comparison in self.comparisons:
            base, new = comparison.base, comparison.new
            # Two subjects of one run differ in their names, two runs usually in their folders only.
            sides = [side.subject if base.folder == new.folder else side.run for side in (base, new)]
            lines += [" → ".join(sides), *(f"  {row}" for row in comparison.rows)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        # A notebook shows it. The fields of all cases that changed would hide the numbers.
        return str(self)


def compare(names: Sequence[str], flips: int = 10) -> ComparisonResult:
    """Compare the first run with each other run. A name is RUN or RUN@SUBJECT.

    With a single run, its first subject is compared with each other subject. `flips` limits the listed cases
    per direction. Raises UsageError if the runs cannot be compared.
    """
    selection = RunSelection(names)
    try:
        comparisons = []
        for base, new in selection.pairs():
            comparisons.append(_compare(base, new, selection.numbers, flips))
        return ComparisonResult(comparisons=comparisons, notes=selection.notes)
    finally:
        selection.close()


def _compare(base: SelectedSubject, new: SelectedSubject, numbers: NameNumbers, flips: int) -> Comparison:
    other_scorers = differing_scorers(base.state, new.state)
    columns = base.columns, new.columns
    cases = pair_cases(*columns)
    if not len(cases.base):
        raise UsageError(
            f"{base.run.folder} ({base.subject}) and {new.run.folder} ({new.subject}) "
            "have no case in common. Cases are paired by their content, so both runs need the same data."
        )
    scores = PairedScores(columns, cases, numbers, other_scorers)
    table = list(table_rows(scores, (base.run.report, new.run.report), (base.subject, new.subject)))
    rows = [row for row, _ in table]
    reader = FlipReader((base.run, new.run), columns)
    return Comparison(
        base=base.describe(),
        new=new.describe(),
        paired=len(cases.base),
        rows=rows,
        now_failing=reader.flips(scores, table, flips, worse=True),
        now_passing=reader.flips(scores, table, flips, worse=False),
        only_base=_one_sided(reader, 0, cases.only_base, flips),
        only_new=_one_sided(reader, 1, cases.only_new, flips),
        cost={"base": _cost(columns[0], cases.base), "new": _cost(columns[1], cases.new)},
        notes=_notes(base, new, cases, other_scorers),
        regressions=regressions(rows),
        significant_regressions=significant_regressions(rows),
    )


def _one_sided(reader: FlipReader, side: int, positions: NDArray[Any], most: int) -> OneSided:
    names = [reader.case_name(side, position) for position in positions[:most].tolist()]
    return OneSided(count=len(positions), shown=names)


def _cost(columns: SubjectColumns, positions: NDArray[Any]) -> Cost:
    return Cost(
        seconds_per_case=float(columns.seconds[positions].mean(dtype="float64")),
        input_tokens=_tokens(columns.input[positions]),
        output_tokens=_tokens(columns.output[positions]),
        calls=int(columns.calls[positions].sum()),
    )


def _tokens(counts: NDArray[Any]) -> int | None:
    """Return the sum of the counts that are known, or None if none is."""
    known = counts[counts != UNKNOWN_TOKENS]
    return int(known.sum(dtype="uint64")) if len(known) else None


def _notes(
    base: SelectedSubject, new: SelectedSubject, cases: CasePairs, other_scorers: set[str]
) -> list[str]:
    """Return the remarks about the pairing that the report prints."""
    notes = []
    if JUDGE in other_scorers:
        notes.append("the two sides have different judges, so judge scores are not compared")
    if any(map(is_imported_scorer, (*base.run.summary.scorers, *new.run.summary.scorers))):
        notes.append("one side is imported: its file does not say with which settings it was scored")
    base_sets = base.columns.sets[cases.base]
    new_sets = new.columns.sets[cases.new]
    renamed = int((base_sets != new_sets).sum())
    if renamed:
        notes.append(
            f"{renamed:,} cases are in sets with different names; they are paired by their content alone"
        )
    return notes


class SelectedRun(NamedTuple):
    """A run of the command, with the subjects to compare."""

    run: ComparedRun
    subjects: list[str]
    state: RunState


class SelectedSubject(NamedTuple):
    """One side of one comparison."""

    run: ComparedRun
    subject: str
    state: RunState

    @property
    def columns(self) -> SubjectColumns:
        """The subject's cases and scores."""
        return self.run.subjects[self.subject]

    def describe(self) -> Side:
        """Return the description of this side for the comparison."""
        info, report = self.run.info, self.run.report
        entries = [entry for entry in report.entries if self.subject in (entry.subject, entry.name)]
        # A suite with one subject has one entry per task, without the subject's name. All their judges count.
        judges = report.judges(self.subject if entries else None)
        return Side(
            run=self.run.folder.name,
            folder=str(self.run.folder),
            suite=short(info.suite),
            subject=self.subject,
            model=str(info.spec.get("model", "")),
            started=info.started,
            state=self.state.state,
            cases=len(self.columns.keys),
            scorers=self.run.summary.scorers,
            reference=any(entry.reference for entry in entries),
            judges=[with_calibration(judge) for judge in judges],
        )


class RunSelection:
    """The runs and subjects of a command. Each run is read once."""

    def __init__(self, names: Sequence[str]) -> None:
        self.numbers = NameNumbers()
        self.notes: list[str] = []
        self._runs: dict[Path, ComparedRun] = {}
        self._selected: list[SelectedRun] = []
        choices = []
        for name in names:
            run_name, subject = split_subject(name)
            choices.append((finished_run(run_name), subject))
        # Refuse runs that cannot be compared before the first of them is read: reading a large run takes seconds.
        for run, _ in choices[1:]:
            differing_scorers(choices[0][0], run)
        try:
            for run, subject in choices:
                self._selected.append(self._select(run, subject))
        except BaseException:
            # Close the runs that were read before the one that failed.
            self.close()
            raise

    def _select(self, state: RunState, subject: str) -> SelectedRun:
        folder, summary = state.folder, state.summary
        assert summary is not None
        if folder not in self._runs:
            self._runs[folder] = ComparedRun(folder, state.info, summary, self.numbers)
            missing = summary.total - summary.ok - summary.subject_error
            if missing:
                self.notes.append(f"{folder.name}: {missing:,} of {summary.total:,} cases have no answer")
        run = self._runs[folder]
        subjects = list(run.subjects)
        if not subjects:
            raise UsageError(f"{folder} has no finished case")
        if subject and subject not in subjects:
            raise UsageError(f"{folder} has no subject {subject!r}; it has {_list_names(subjects)}")
        return SelectedRun(run, [subject] if subject else subjects, state)

    def pairs(self) -> Iterator[tuple[SelectedSubject, SelectedSubject]]:
        """Yield (base, new) for every comparison of the command."""
        base, *others = self._selected
        if not others:
            yield from self._pairs_within(base)
        for new in others:
            for base_subject, new_subject in self._pair_subjects(base, new):
                yield (
                    SelectedSubject(base.run, base_subject, base.state),
                    SelectedSubject(new.run, new_subject, new.state),
                )

    def _pairs_within(self, selected: SelectedRun) -> Iterator[tuple[SelectedSubject, SelectedSubject]]:
        run, subjects, state = selected
        if len(subjects) < 2:
            raise UsageError(
                f"{run.folder} has only one subject, {subjects[0]!r}. "
                "Pass a second run, or RUN@SUBJECT twice."
            )
        for subject in subjects[1:]:
            yield SelectedSubject(run, subjects[0], state), SelectedSubject(run, subject, state)

    def _pair_subjects(self, base: SelectedRun, new: SelectedRun) -> list[tuple[str, str]]:
        """Return the pairs of subjects. One subject on each side: paired regardless of names. Else by equal names."""
        if len(base.subjects) == len(new.subjects) == 1:
            return [(base.subjects[0], new.subjects[0])]
        common = [name for name in base.subjects if name in new.subjects]
        if not common:
            raise UsageError(
                f"{base.run.folder} ({_list_names(base.subjects)}) and {new.run.folder} "
                f"({_list_names(new.subjects)}) have no subject in common. Choose one of each: RUN@SUBJECT"
            )
        for side in (base, new):
            only_here = [name for name in side.subjects if name not in common]
            if only_here:
                self.notes.append(f"only in {side.run.folder.name}: the subjects {_list_names(only_here)}")
        return [(name, name) for name in common]

    def close(self) -> None:
        """Close all files."""
        for run in self._runs.values():
            run.close()


def differing_scorers(base: RunState, new: RunState) -> set[str]:
    """Return the names of the scorers that differ between two runs. Raises UsageError if they are not comparable.

    The judge may differ or be missing on one side; then only its scores are left out. Another scorer may
    differ only if its scores have fingerprints of the expected values.
    """
    base_suite, new_suite = short(base.info.suite), short(new.info.suite)
    if base_suite != new_suite:
        raise UsageError(
            f"{base.folder} is a run of {base_suite}, {new.folder} one of "
            f"{new_suite}; only runs of one suite can be compared"
        )
    assert base.summary is not None
    assert new.summary is not None
    base_scorers = {scorer_name(scorer): scorer for scorer in base.summary.scorers}
    new_scorers = {scorer_name(scorer): scorer for scorer in new.summary.scorers}
    differing = set()
    for name in {*base_scorers, *new_scorers}:
        if base_scorers.get(name) != new_scorers.get(name) and not _is_unverified(
            base_scorers.get(name), new_scorers.get(name)
        ):
            differing.add(name)
    if differing - {JUDGE}:
        same_names = base_scorers.keys() == new_scorers.keys()
        if not (same_names and names_gold(base.folder) and names_gold(new.folder)):
            raise UsageError(
                f"{base.folder} is scored by {', '.join(base_scorers.values())}, {new.folder} by "
                f"{', '.join(new_scorers.values())}, so their numbers are not comparable. "
                "`assay rescore RUN` scores a run with the present settings of its files."
            )
    return differing


def _is_unverified(base: str | None, new: str | None) -> bool:
    """Return whether both sides have a scorer, and one of them was imported without its settings."""
    return base is not None and new is not None and (is_imported_scorer(base) or is_imported_scorer(new))


def names_gold(folder: Path) -> bool:
    """Return whether the first scores of a run have fingerprints of their expected values (`data.gold`).

    In some suites the expected values of single cases are edited between runs. Their scores have such a fingerprint,
    so that only cases with equal values are compared.
    """
    try:
        with (folder / "scores.jsonl").open("rb") as file:
            lines = list(islice(file, 1, 1 + _FIRST_SCORES))  # the first line is the header
    except OSError:
        return False
    for line in lines:
        try:
            score = msgspec.json.decode(line, type=_GoldLine)
        except msgspec.DecodeError:
            continue  # damage is reported when the run is read
        if isinstance(score.data, dict) and score.data.get("gold"):
            return True
    return False


class _GoldLine(Struct):
    """The part of a score that may have a fingerprint of the expected values."""

    data: Any = None


def _list_names(names: list[str]) -> str:
    text = ", ".join(map(repr, names[:_MAX_NAMES]))
    more = len(names) - _MAX_NAMES
    return f"{text} and {more:,} more" if more > 0 else text
