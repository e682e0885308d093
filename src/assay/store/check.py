"""Verifies a whole run folder for `assay check RUN`: every line, and that the files fit together.

    check = check_run(folder)
    check.problems, check.lines, check.command

It reads the journal once, in blocks, and needs five bytes for each case and scorer. It changes nothing, with one
exception: if a line is damaged, it removes the sidecars of the index, so that the next start finds the damage too.
"""

from __future__ import annotations

from array import array
from pathlib import Path

import msgspec

from assay.core.errors import DamagedRun, Problem
from assay.core.hashing import file_sha256
from assay.core.types import ASK, Commit, End, Score
from assay.files.paths import path_from_here
from assay.files.plain_files import PUBLISHED, is_plain
from assay.journal import sidecar
from assay.journal.folder import is_overwritten, unplain_problems
from assay.journal.index import CODES
from assay.journal.integrity import FINAL_STATES, file_problems, published_problem
from assay.journal.line_types import CALLS, RECORDS, SCORES, WHOLE_LINES
from assay.journal.lines import (
    DamagedLine,
    advice,
    forget_sidecars,
    line_number,
    read_blocks,
)
from assay.journal.repair import DAMAGED
from assay.journal.run_files import ROWS, RunInfo, Summary, check_owner, read_info, read_summary
from assay.store.runs import find_run, run_folders, started_in

# Problems of one kind in one file that are listed. A missing line displaces all lines after it.
_MAX_LISTED = 20


class RunCheck(msgspec.Struct, kw_only=True):
    """The problems of a run folder, and what was verified."""

    folder: str
    problems: list[Problem] = []
    lines: int = 0
    """Intact lines in the journal, without the first line of each file."""
    cases: int = 0
    """Cases that have ended."""
    result_files: int = 0
    """Result files that are as they were written."""
    command: list[str] = []
    """The words that continue the run. Empty if `run.json` cannot be read."""
    advice: str = ""
    """What to do about damage of the journal. Empty if there is none."""

    @property
    def damaged(self) -> bool:
        """Whether a problem is an error. Warnings concern files that assay writes again by itself, or never reads."""
        return any(problem.level == "error" for problem in self.problems)


def check_run(folder: Path) -> RunCheck:
    """Verify a run folder. Raises InputError for a run of another format."""
    check = RunCheck(folder=str(folder), problems=[])
    info, summary = _read_info(folder, check), _read_summary(folder, check)
    if info is not None:
        check.command = info.repeat_command
    journal = _JournalCheck(folder, info, summary)
    check.problems += journal.problems
    check.lines, check.cases = journal.lines, journal.cases
    unplain = unplain_problems(folder)
    # With such an entry, the command of the run stops.
    if journal.problems and not unplain:
        check.advice = advice(folder).partition(" `assay check")[0]
    if journal.damaged_lines:
        forget_sidecars(folder)
    check.problems += _sidecar_problems(folder)
    if summary is not None:
        problems, check.result_files = _result_files(folder, summary, info)
        check.problems += problems
    if is_plain(folder / PUBLISHED) and (published := published_problem(folder)) is not None:
        check.problems.append(published)
    # Those of the journal, of run.json and of summary.json are named above.
    check.problems += [problem for problem in unplain if problem not in check.problems]
    if (folder / DAMAGED).is_dir() and not (folder / DAMAGED).is_symlink():
        kept = len(list((folder / DAMAGED).iterdir()))
        message = f"assay has repaired the run and keeps the damaged files here: {kept:,}. It does not read them"
        check.problems.append(Problem(str(folder / DAMAGED), message, "advice"))
    return check


def find_run_folders(path: Path) -> list[Path]:
    """Return the run folders that a path means: itself, those below a folder, or one by the start of its name.

    Empty for any other file or folder.
    """
    if path.is_dir():
        return list(run_folders(path))
    if path.exists() or not any(folder.name.startswith(str(path)) for folder in run_folders(Path())):
        return []
    return [find_run(str(path))]


def _read_info(folder: Path, check: RunCheck) -> RunInfo | None:
    try:
        info = read_info(folder)
        check_owner(folder, info)
    except DamagedRun as error:
        check.problems += error.problems
        return None
    return info


def _read_summary(folder: Path, check: RunCheck) -> Summary | None:
    try:
        return read_summary(folder)
    except DamagedRun as error:
        check.problems += [problem for problem in error.problems if problem not in check.problems]
        return None


class _JournalCheck:
    """One pass over the three files of a journal."""

    def __init__(self, folder: Path, info: RunInfo | None, summary: Summary | None) -> None:
        self.problems = file_problems(folder, summary)
        self.damaged_lines = 0
        self.lines = 0
        self._run = info.id if info else ""
        self._codes = bytearray()
        """How the last try of each case ended, 0 for a case without an end."""
        self._tries: dict[str, array[int]] = {}
        """The last try of each case that ended, by stage."""
        for path in (folder / name for name in (RECORDS, SCORES, CALLS)):
            if is_plain(path):
                self._read(path)
        self.cases = len(self._codes) - self._codes.count(0)
        if info is not None and self.cases > info.total:
            message = f"has the ends of {self.cases:,} cases, but the run has {info.total:,}"
            self.problems.append(Problem(str(folder / RECORDS), message))
        if not self.problems and summary is not None and summary.state in FINAL_STATES:
            self._compare_counts(folder / "summary.json", summary)

    def _read(self, path: Path) -> None:
        damage = _FirstDamage()
        others = _FirstProblems(path)
        if path.name == CALLS:
            for _, sizes, _ in read_blocks(path, WHOLE_LINES[CALLS], run=self._run, damage=damage):
                self.lines += len(sizes)
        else:
            self._read_commits(path, damage, others)
        self.damaged_lines += damage.total
        self.problems += [line.problem for line in damage]
        if damage.total > len(damage):
            self.problems.append(Problem(str(path), f"{damage.total - len(damage):,} more lines are damaged"))
        # Lost lines leave references without a target. These are listed only if nothing else explains them.
        if not self.problems:
            self.problems += others.problems()

    def _read_commits(self, path: Path, damage: _FirstDamage, others: _FirstProblems) -> None:
        # Lines that no end has committed yet, with their cases. Those of interrupted tries stay here.
        open_lines: dict[int, int] = {}
        for begin, sizes, lines in read_blocks(path, WHOLE_LINES[path.name], run=self._run, damage=damage):
            self.lines += len(lines)
            offset = begin
            for size, line in zip(sizes, lines, strict=True):
                if isinstance(line, End):
                    self._end(line.index, line.stage, line, offset, others)
                    committed = line.lines
                elif line.end is not None:
                    stage = line.scorer if isinstance(line, Score) else ASK
                    self._end(line.index, stage, line.end, offset, others)
                    committed = line.end.lines
                else:
                    open_lines[offset] = line.index
                    committed = []
                for place in committed:
                    if open_lines.pop(place, None) != line.index:
                        others.add(offset, f"ends case {line.index} with a line at byte {place}, which is missing")
                offset += size

    def _end(self, index: int, stage: str, end: Commit | End, offset: int, others: _FirstProblems) -> None:
        """Take the end of a stage of a case. `end` has the status of the case if the stage is the solver."""
        tries = self._tries.setdefault(stage, array("i"))
        missing = index + 1 - len(tries)
        if missing > 0:
            tries.extend(array("i", [0]) * missing)
        if tries[index] == end.try_:
            others.add(offset, f"ends try {end.try_} of case {index} a second time")
        tries[index] = max(tries[index], end.try_)
        if stage == ASK:
            self._codes.extend(bytes(max(0, index + 1 - len(self._codes))))
            self._codes[index] = CODES[end.status]
            return
        answered = self._tries.get(ASK, array("i"))
        if index >= len(answered) or answered[index] < end.try_:
            others.add(offset, f"scores try {end.try_} of case {index}, which has no end in {RECORDS}")

    def _compare_counts(self, path: Path, summary: Summary) -> None:
        for status, code in CODES.items():
            count = {"ok": summary.ok, "subject_error": summary.subject_error}.get(status, summary.infra_error)
            if self._codes.count(code) != count:
                message = f"counts {count:,} cases as {status}, but the journal has {self._codes.count(code):,}"
                self.problems.append(Problem(str(path), message))


class _FirstDamage(list[DamagedLine]):
    """The first damaged lines of a file, and the number of all: a missing line displaces all lines after it."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def append(self, line: DamagedLine) -> None:
        """Count a line, and keep it if it is one of the first."""
        self.total += 1
        if len(self) < _MAX_LISTED:
            super().append(line)


class _FirstProblems:
    """The first lines of a file that do not fit the rest of the journal, and the number of all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: list[tuple[int, str]] = []
        self._count = 0

    def add(self, offset: int, message: str) -> None:
        """Count a line, and keep it if it is one of the first."""
        self._count += 1
        if len(self._first) < _MAX_LISTED:
            self._first.append((offset, message))

    def problems(self) -> list[Problem]:
        """Return a problem for each kept line, and one for all others."""
        problems = [
            Problem(f"{self._path}:{line_number(self._path, offset)}", f"the line at byte {offset} {message}")
            for offset, message in self._first
        ]
        if self._count > len(problems):
            problems.append(
                Problem(str(self._path), f"{self._count - len(problems):,} more lines do not fit the journal")
            )
        return problems


def _sidecar_problems(folder: Path) -> list[Problem]:
    """Return a warning for each sidecar of the index that cannot be read. Readers ignore it and read the journal."""
    message = "this copy of the index cannot be used and is ignored. It can be deleted"
    return [
        Problem(str(path), message, "warning")
        for path in sorted(folder.glob("*.bin"))
        if sidecar.load(path, _AnyHead) is None
    ]


def _result_files(folder: Path, summary: Summary, info: RunInfo | None) -> tuple[list[Problem], int]:
    """Return a problem for each result file that is not as it was written, and the number of the others."""
    problems: list[Problem] = []
    intact = 0
    if summary.state not in FINAL_STATES:
        return problems, intact
    overwritten = info is not None and is_overwritten(folder, summary, info.suite)
    place = folder.resolve()
    start = started_in(place, str(info.spec.get("output_dir") or "")) if info is not None else None
    for name, digest in summary.digests.items():
        path = _find_file(place, name, start)
        level = "error"
        if path is None and name == ROWS:
            # The rows are a part of the run: no data file has them.
            message = "the file is missing. Run the program again, which writes the file again"
            if info is not None and info.imported is not None:
                message = f"the file is missing. {advice(folder)}"
            path = folder / ROWS
        elif path is None:
            # Result files can be moved or deleted by their owner.
            message, level = (
                "the file is not there. Repeat the command of the run, which writes it again",
                "warning",
            )
            if start is None:
                message = "the file is not there, or elsewhere: the run folder was copied or moved after the run"
        elif file_sha256(path) == digest:
            intact += 1
            continue
        elif overwritten:
            message, level = "a later run has overwritten the file", "warning"
        else:
            message = "the file was changed after the run. Delete it and repeat the command, which writes it again"
        problems.append(Problem(str(path_from_here(path) if path else name), message, level))
    return problems, intact


def _find_file(folder: Path, name: str, start: Path | None) -> Path | None:
    """Return a result file of the run in `folder`; None if there is none.

    `start` is the folder in which the command of the run was typed: names are relative to it. It is None for a copy
    of the run, and for a run that was moved. Then a file is looked for in the same output folder only: elsewhere there
    may be the file of the original.
    """
    parts = Path(name).relative_to(Path(name).anchor).parts
    if name == ROWS:
        choices = [folder / ROWS]
    elif folder.name in parts:
        choices = [folder.joinpath(*parts[parts.index(folder.name) + 1 :])]
    else:
        choices = [start / name] if start is not None else []
        below = [number for number in range(len(parts)) if ".." not in parts[number:]]
        choices += [folder.parent.parent.joinpath(*parts[number:]) for number in below]
    return next((path for path in choices if path.is_file()), None)


class _AnyHead(msgspec.Struct):
    """The head of any sidecar. Its fields are skipped."""
