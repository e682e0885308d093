"""Which runs and subjects a command means, and which of them cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import UsageError
from assay.core.registry import short
from assay.core.types import JUDGE
from assay.store.comparison.columns import Columns, Names, Reading, scorer_name
from assay.store.comparison.result import Side
from assay.store.judges import judges_in, with_calibration
from assay.store.runs import find_run, state_of

_MOST_NAMED = 10


class Chosen(NamedTuple):
    """A run, and those of its subjects that are meant."""

    reading: Reading
    subjects: list[str]
    state: str


class Choice(NamedTuple):
    """One side of one comparison."""

    reading: Reading
    subject: str
    state: str

    @property
    def columns(self) -> Columns:
        """The subject's cases and scores."""
        return self.reading.subjects[self.subject]

    def about(self) -> Side:
        """Who it is."""
        info, summary = self.reading.info, self.reading.summary
        reference, judges = False, judges_in(summary.results, self.subject)
        if summary.report is not None:
            entries = [one for one in summary.report.entries if self.subject in (one.subject, one.name)]
            reference = any(entry.reference for entry in entries)
            # Entries of a run with one subject may be named after its sets alone.
            judges = summary.report.judges(self.subject if entries else None)
        elif self.subject in summary.results:
            reference = bool(summary.results[self.subject].get("reference"))
        return Side(
            run=self.reading.folder.name,
            folder=str(self.reading.folder),
            suite=short(info.suite),
            subject=self.subject,
            model=str(info.spec.get("model", "")),
            started=info.started,
            state=self.state,
            cases=len(self.columns),
            scorers=summary.scorers,
            reference=reference,
            judges=[with_calibration(judge) for judge in judges],
        )


class Sides:
    """The runs of one command, each read once."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = Names()
        self.notes: list[str] = []
        self._runs: dict[Path, tuple[Reading, str]] = {}
        try:
            self._chosen = [self._choose(name) for name in names]
        except BaseException:
            self.close()
            raise

    def _choose(self, name: str) -> Chosen:
        run, subject = _split(name)
        folder = find_run(run)
        if folder not in self._runs:
            self._runs[folder] = self._read(folder)
        reading, state = self._runs[folder]
        known = list(reading.subjects)
        if subject and subject not in known:
            raise UsageError(f"{folder} has no subject {subject!r}; it has {_listed(known)}")
        return Chosen(reading, [subject] if subject else known, state)

    def _read(self, folder: Path) -> tuple[Reading, str]:
        """Refuses a run that is still to be continued."""
        found = state_of(folder)
        if found.summary is None or found.state not in ("finished", "incomplete"):
            raise UsageError(
                f"{folder} is not finished ({found.state}); the command that started it continues it"
            )
        reading = Reading(folder, found.info, found.summary, self.names)
        if not reading.subjects:
            raise UsageError(f"{folder} has no case that ended")
        if missing := found.summary.total - found.summary.ok - found.summary.subject_error:
            self.notes.append(f"{folder.name}: {missing:,} of {found.summary.total:,} cases have no answer")
        return reading, found.state

    def pairs(self) -> Iterator[tuple[Choice, Choice]]:
        """(base, new) of every comparison that the command means."""
        base, *others = self._chosen
        if not others:
            yield from self._within(base)
        for new in others:
            for one, other in self._subjects(base, new):
                yield Choice(base.reading, one, base.state), Choice(new.reading, other, new.state)

    def _within(self, run: Chosen) -> Iterator[tuple[Choice, Choice]]:
        if len(run.subjects) < 2:
            raise UsageError(
                f"{run.reading.folder} alone has one subject, {run.subjects[0]!r}; "
                "name a second run, or RUN@SUBJECT twice"
            )
        first, *rest = run.subjects
        for subject in rest:
            yield Choice(run.reading, first, run.state), Choice(run.reading, subject, run.state)

    def _subjects(self, base: Chosen, new: Chosen) -> list[tuple[str, str]]:
        """One with one, whatever their names; of several, those of equal name."""
        if len(base.subjects) == len(new.subjects) == 1:
            return [(base.subjects[0], new.subjects[0])]
        common = [name for name in base.subjects if name in new.subjects]
        if not common:
            raise UsageError(
                f"no subject of {base.reading.folder} ({_listed(base.subjects)}) is one of "
                f"{new.reading.folder} ({_listed(new.subjects)}); name them: RUN@SUBJECT"
            )
        for one, other in ((base, new), (new, base)):
            if alone := [name for name in one.subjects if name not in other.subjects]:
                self.notes.append(f"only in {one.reading.folder.name}: the subjects {_listed(alone)}")
        return [(name, name) for name in common]

    def close(self) -> None:
        """Let go of all files."""
        for reading, _ in self._runs.values():
            reading.close()


def _split(name: str) -> tuple[str, str]:
    """RUN@SUBJECT. A folder's own name may have an @, a subject's too."""
    if Path(name).is_dir():
        return name, ""
    cuts = [at for at, char in enumerate(name) if char == "@"]
    for at in cuts:
        if Path(name[:at]).is_dir():
            return name[:at], name[at + 1 :]
    run, _, subject = name.partition("@")
    return run, subject


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(map(repr, names[:_MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def refuse(base: Choice, new: Choice) -> set[str]:
    """Raises where numbers would not mean the same. Gives the scorers that differ but mark each score.

    A judge may differ or be there on one side only: the other scores are compared, its own are left out.
    """
    one, other = base.reading, new.reading
    if short(one.info.suite) != short(other.info.suite):
        raise UsageError(
            f"{one.folder} is a run of {short(one.info.suite)}, {other.folder} one of "
            f"{short(other.info.suite)}; only runs of one suite can be compared"
        )
    ours, theirs = ({scorer_name(name): name for name in reading.summary.scorers} for reading in (one, other))
    differing = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    marked = base.columns.marked and new.columns.marked
    if differing - {JUDGE} and not (marked and ours.keys() == theirs.keys()):
        raise UsageError(
            f"{one.folder} is scored by {', '.join(ours.values())}, {other.folder} by "
            f"{', '.join(theirs.values())}: their numbers do not mean the same; "
            "`assay rescore RUN` brings a run to the settings of its files as they are now"
        )
    return differing
