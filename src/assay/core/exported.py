"""A run on its way into a file format of another program, for `assay export RUN --to FORMAT`.

An Exporter writes one format. A suite returns the exporter of its own format from `SuiteFiles.exporter`;
`assay.runner.exports` lists all formats, finds the run and prints what the format cannot hold.

    class QuizExporter(Exporter):
        suffix = ".json"

        def loses(self, run):
            return ["calls", "intervals"]

        def write(self, run, target):
            answers = [
                {"id": case.end.label, "answer": case.answer, "points": case.scores[0].value}
                for case in run.cases(calls=False)
            ]
            write_json(target, {"model": run.model, "answers": answers})
            return [target]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from msgspec import Struct, field

from assay.core.imported import ImportOrigin
from assay.core.report import Report
from assay.core.types import Record, Score

if TYPE_CHECKING:
    # core/suite.py imports this module for `SuiteFiles.exporter`.
    from assay.core.suite_pages import StoredCase


class RunAbout(Struct, kw_only=True):
    """What is known about a run besides its cases."""

    folder: Path
    suite: str
    model: str
    started: float
    seconds: float
    total: int
    """The number of cases, also of those without an answer."""
    report: Report
    scorers: list[str]
    score_parts: Literal["none", "filters", "rows"] = "none"
    """The meaning of `Score.part`: `Suite.parts`."""
    files: list[Path] = field(default_factory=list)
    """The result files that the run wrote itself, in its suite's format. Empty for an imported run."""
    imported: ImportOrigin | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    """The options of the run, as run.json stores them."""
    facts: dict[str, Any] = field(default_factory=dict)
    gold_columns: frozenset[str] = frozenset()
    """Columns of `StoredCase.row` that the evaluated function, prompt or model never received."""


class ExportedRun(ABC):
    """A finished run as exporters read it."""

    def __init__(self, about: RunAbout) -> None:
        self.about = about

    @property
    def model(self) -> str:
        """The model of the run, such as `openai/gpt-5`. A run with several models has the first one here."""
        return self.about.model

    @property
    def report(self) -> Report:
        """The numbers of the run."""
        return self.about.report

    @abstractmethod
    def cases(self, *, calls: bool = True) -> Iterator[StoredCase]:
        """Yield the cases in data order, one at a time. Without `calls` it is several times faster."""


class Exporter(ABC):
    """Writes runs in one format. It keeps nothing between two runs."""

    suffix: ClassVar[str] = ""
    """The ending of the file's name. Empty if the format is a folder with several files."""

    def refusal(self, run: ExportedRun) -> str:
        """Return why this run cannot be written in the format, and what to do instead; "" if it can."""
        return ""

    @abstractmethod
    def loses(self, run: ExportedRun) -> list[str]:
        """Return what the run has and the format cannot hold, in short words: `intervals`, `prompts and replies`.

        Names only what this run really has: a run without a judge loses no verdicts.
        """

    @abstractmethod
    def write(self, run: ExportedRun, target: Path) -> list[Path]:
        """Write the run to a file, or into a new folder if `suffix` is empty. Returns the paths of the files.

        `target` is a temporary name, so a name inside the files must come from the run. Nothing remains if this fails.
        """


class CasePart(NamedTuple):
    """A test or question of a case, with its scores and answers."""

    part: str
    scores: list[Score]
    answers: list[Record]


def case_parts(case: StoredCase) -> list[CasePart]:
    """Return the parts of a case, in the order of their answers.

    Interim questions are left out, because a later test asks them again: `interim_loss` names them.
    """
    parts: dict[str, CasePart] = {}
    for record in case.records:
        if record.kind == "answer":
            parts.setdefault(record.part, CasePart(record.part, [], [])).answers.append(record)
    for score in case.scores:
        parts.setdefault(score.part, CasePart(score.part, [], [])).scores.append(score)
    return [each for each in parts.values() if not any(score.interim for score in each.scores)]


def interim_loss(run: ExportedRun) -> list[str]:
    """Return what an export without interim questions loses. Empty for a run that has none."""
    if run.about.score_parts != "rows":
        return []
    has_interim = any(score.interim for case in run.cases(calls=False) for score in case.scores)
    return ["earlier answers to questions that a later test asks again"] if has_interim else []
