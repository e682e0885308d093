"""Finds the runs and subjects of a comparison, and refuses those that cannot be compared before it reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from assay.core.errors import DamagedRun, UsageError
from assay.core.imported import is_imported_scorer
from assay.core.judges import JudgeInfo
from assay.core.registry import short
from assay.core.types import JUDGE
from assay.files.plain_files import open_plain_file
from assay.store.comparison.columns import ComparedRun, NameNumbers, SubjectColumns, scorer_name
from assay.store.judges import with_calibration
from assay.store.runs import RunState, finished_run, split_subject

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
        _refuse_early(choices)
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
            if state.info.shard is not None:
                self.notes.append(f"{folder.name} is shard {state.info.shard} of its run, not the whole run")
            if missing:
                self.notes.append(f"{folder.name}: {missing:,} of {summary.total:,} cases have no answer")
        run = self._runs[folder]
        if not run.subjects:
            raise UsageError(f"{folder} has no finished case")
        return SelectedRun(run, _choose(folder, list(run.subjects), subject), state)

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
        _require_two(run.folder, subjects)
        for subject in subjects[1:]:
            yield SelectedSubject(run, subjects[0], state), SelectedSubject(run, subject, state)

    def _pair_subjects(self, base: SelectedRun, new: SelectedRun) -> list[tuple[str, str]]:
        pairs = _pair_names((base.run.folder, base.subjects), (new.run.folder, new.subjects))
        for side, paired in ((base, {pair[0] for pair in pairs}), (new, {pair[1] for pair in pairs})):
            only_here = [name for name in side.subjects if name not in paired]
            if only_here:
                self.notes.append(f"only in {side.run.folder.name}: the subjects {_list_names(only_here)}")
        return pairs

    def close(self) -> None:
        """Close all files."""
        for run in self._runs.values():
            run.close()


def _refuse_early(choices: list[tuple[RunState, str]]) -> None:
    """Raise UsageError for runs that cannot be compared, as far as `run.json` and `summary.json` tell.

    Reading the journal of a large run takes seconds. What these files do not tell is found out afterwards.
    """
    base = choices[0][0]
    for run, _ in choices[1:]:
        differing_scorers(base, run)
    chosen = []
    for run, subject in choices:
        assert run.summary is not None
        entries = run.summary.report.entries if run.summary.report else []
        # Entries of a suite with one subject are tasks, without the name of the subject.
        if not entries or not all(entry.subject for entry in entries):
            return
        subjects = list(dict.fromkeys(entry.subject for entry in entries))
        chosen.append((run.folder, _choose(run.folder, subjects, subject)))
    if len(chosen) == 1:
        _require_two(*chosen[0])
    for other in chosen[1:]:
        _pair_names(chosen[0], other)


def _choose(folder: Path, subjects: list[str], subject: str) -> list[str]:
    """Return the named subject of a run, or all if none is named."""
    if subject and subject not in subjects:
        raise UsageError(f"{folder} has no subject {subject!r}; it has {_list_names(subjects)}")
    return [subject] if subject else subjects


def _require_two(folder: Path, subjects: list[str]) -> None:
    if len(subjects) < 2:
        raise UsageError(f"{folder} has only one subject, {subjects[0]!r}. Pass a second run, or RUN@SUBJECT twice.")


def _pair_names(base: tuple[Path, list[str]], new: tuple[Path, list[str]]) -> list[tuple[str, str]]:
    """Return the pairs of subjects. One subject on each side: paired regardless of names. Else by equal names."""
    (base_folder, base_subjects), (new_folder, new_subjects) = base, new
    if len(base_subjects) == len(new_subjects) == 1:
        return [(base_subjects[0], new_subjects[0])]
    common = [name for name in base_subjects if name in new_subjects]
    if not common:
        raise UsageError(
            f"{base_folder} ({_list_names(base_subjects)}) and {new_folder} "
            f"({_list_names(new_subjects)}) have no subject in common. Choose one of each: RUN@SUBJECT"
        )
    return [(name, name) for name in common]


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
            if same_names and (why := _other_cases(base, new)):
                raise UsageError(why)
            raise UsageError(
                f"{base.folder} is scored by {', '.join(base_scorers.values())}, {new.folder} by "
                f"{', '.join(new_scorers.values())}, so their numbers are not comparable. "
                "`assay rescore RUN` scores a run with the present settings of its files."
            )
    return differing


def _other_cases(base: RunState, new: RunState) -> str:
    """Return what to say of two runs with different cases; "" if they have the same, or if it is not known.

    The scorers of such runs differ because the expected values do, and scoring them again would not change that.
    """
    asked = [side.info.parts.get("ask") or {} for side in (base, new)]
    if not all("data" in each for each in asked) or asked[0]["data"] == asked[1]["data"]:
        return ""
    options = [each.get("options", {}) for each in asked]
    differing = [
        f"--{name.replace('_', '-')} {' and '.join(_option_text(side.get(name)) for side in options)}"
        for name in options[0]
        if options[0][name] != options[1].get(name)
    ]
    return (
        f"{base.folder} and {new.folder} do not ask the same questions at the same times: their data differ, or the "
        f"options that choose what is asked. Options that differ: {'; '.join(differing) or 'none'}. Run one of them "
        "again with the data and options of the other."
    )


def _option_text(value: Any) -> str:
    """Return the value of an option as one would type it."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or "(none)"
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items()) or "(none)"
    return "(none)" if value in (None, "") else str(value)


def _is_unverified(base: str | None, new: str | None) -> bool:
    """Return whether both sides have a scorer, and one of them was imported without its settings."""
    return base is not None and new is not None and (is_imported_scorer(base) or is_imported_scorer(new))


def names_gold(folder: Path) -> bool:
    """Return whether the first scores of a run have fingerprints of their expected values (`data.gold`).

    In some suites the expected values of single cases are edited between runs. Their scores have such a fingerprint,
    so that only cases with equal values are compared.
    """
    try:
        with open_plain_file(folder / "scores.jsonl") as file:
            lines = list(islice(file, 1, 1 + _FIRST_SCORES))  # the first line is the header
    except (OSError, DamagedRun):
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
