"""Results that another program wrote, on their way into a run folder.

A suite's `read_results` returns an ImportedRun for a file of its format. `assay.runner.imports` writes its cases and
its report through the journal, so that every other command reads the run like one of assay's own.

    class QuizResults(ImportedRun):
        def __init__(self, path):
            self.rows = read_json(path, QuizFile).answers
            super().__init__(ImportPlan(
                format="quiz", suite="quiz", files=[path], total=len(self.rows), model="gpt-5",
                subjects=["gpt-5"], scorers=[imported_scorer("quiz")], missing=["times", "tokens"],
            ))

        def cases(self):
            for row in self.rows:
                yield ImportedCase(
                    key=row_key(row.question.encode()),
                    set="quiz",
                    subject="gpt-5",
                    records=[Record(*UNPLACED, try_=1, kind="answer", data=row.answer)],
                    scores=[Score(*UNPLACED, scorer=self.plan.scorers[0], metric="correct", value=row.points)],
                )

        def report(self):
            return Report(entries=[...])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.report import Report
from assay.core.types import NO_CASE, Call, Failure, Record, Score, Usage

UNPLACED = (NO_CASE, "", "", "")
"""Index, key, set and subject of a record, score or call whose case is not numbered yet. The importer fills them in."""

_UNKNOWN_SETTINGS = "imported"


def imported_scorer(name: str) -> str:
    """Return the id of a scorer whose settings the file does not contain.

    Native scorers have the id `name@fingerprint`. `compare` accepts an imported scorer beside a native one of the same
    name, and says that it cannot verify that both have the same settings.
    """
    return f"{name}@{_UNKNOWN_SETTINGS}"


def is_imported_scorer(scorer: str) -> bool:
    """Return whether this id was made by `imported_scorer`."""
    return scorer.rpartition("@")[2] == _UNKNOWN_SETTINGS


class ImportedCase(Struct, kw_only=True):
    """One case of an imported run. Cases are numbered in the order in which they are yielded.

    `key` must be the key that a native run gives the same row, so that `compare` pairs them. It must be unique among
    the cases of a subject and set; `core/row_keys.py` numbers equal rows. Records, scores and calls begin with
    `*UNPLACED`. A call needs no `hash` and no `n`: the importer computes them from its request.
    """

    key: str
    set: str
    subject: str
    label: str = ""
    tags: tuple[str, ...] = ()
    failure: Failure | None = None
    """Why the case has no answer. None means that the case ended well."""
    records: list[Record] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    usage: Usage | None = None
    seconds: float = 0.0


class ImportPlan(Struct, kw_only=True):
    """What is known about an imported run before its cases are read."""

    format: str
    """The name of the format, as `--as` takes it."""
    suite: str
    name: str = ""
    """The name of the evaluation, where a format has one: the task of an Inspect log. `assay runs` shows it."""
    files: list[Path]
    """Every file that was read. Their content identifies the run."""
    total: int
    """The number of cases."""
    model: str = ""
    subjects: list[str] = field(default_factory=list)
    scorers: list[str] = field(default_factory=list)
    """The ids of all scorers, in the order in which `assay show` lists their scores."""
    score_parts: Literal["none", "filters", "rows"] = "none"
    started: float | None = None
    """When the evaluation began. None if the file does not say; the time of the import then stands in its place."""
    seconds: float = 0.0
    producer: str = ""
    """The program that wrote the file, with its version, such as `lm-eval 0.4.9`."""
    missing: list[str] = field(default_factory=list)
    """What a native run has and this file does not, in short words: `times`, `tokens`."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The suite's own facts for run.json, as `Rows.facts`."""


class ImportedRun(ABC):
    """The results of a file. The importer reads `cases` once to its end and then calls `report`.

    Errors of the file are InputErrors, from the constructor or while the cases are read; then nothing remains of the
    import. A reader of a large file must not hold all its cases.
    """

    def __init__(self, plan: ImportPlan) -> None:
        self.plan = plan

    @abstractmethod
    def cases(self) -> Iterator[ImportedCase]:
        """Yield the cases in data order, row by row: first all subjects of the first row."""

    @abstractmethod
    def report(self) -> Report:
        """Return the numbers of the run. Called once, after all cases were read."""

    def use_data(self, path: Path) -> None:
        """Take what the results lack from the data file of the evaluation, for `--data`. Called before `cases`.

        Some formats do not repeat their data. The key of a native case is made of that data, so `compare` pairs an
        imported run with a native one only if the importer gets it.
        """
        raise UsageError(f"results in the format {self.plan.format} are complete: remove --data {path}")

    def prepare(self, folder: Path) -> None:  # noqa: B027 - most formats need nothing
        """Write what readers of the run folder need besides the journal, as `Suite.prepare`."""

    def close(self) -> None:  # noqa: B027 - most readers keep no file open
        """Close the files that are open."""


class ImportedFile(Struct, kw_only=True):
    """One file that an imported run was made from."""

    path: str
    sha256: str
    bytes: int


class ImportOrigin(Struct, kw_only=True, omit_defaults=True):
    """Where an imported run comes from. run.json stores it under `imported`."""

    format: str
    files: list[ImportedFile]
    producer: str = ""
    missing: list[str] = field(default_factory=list)
