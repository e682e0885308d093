"""SuiteFiles: what a suite knows about files without a run, for `assay check`, `schema`, `import` and `export`.

class QuizFiles(SuiteFiles):
def recognises(self, path):
return Match.LIKELY if path.suffix == ".jsonl" else Match.NO

class Quiz(Suite[QuizOptions, Question]):
files = QuizFiles
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from assay.core.errors import Problem
from assay.core.file_check import CheckOptions, FileCheck

if TYPE_CHECKING:
    from assay.core.exported import Exporter
    from assay.core.imported import ImportedRun
    from assay.files.json_schema import FileSchema


class Match(IntEnum):
    """How sure a suite is that a file is in one of its formats."""

    NO = 0
    MAYBE = 1
    LIKELY = 2
    SURE = 3


class SuiteFiles:
    """The files of a suite's formats. The default knows none. `suite` is the name of the suite."""

    reader: ClassVar[str] = ""
    """`module:function` that reads results of the suite's format; see `read_results`. Empty: there are none."""
    writer: ClassVar[str] = ""
    """`module:Class` of the Exporter that writes runs in the suite's own format. Empty: there is none."""

    def __init__(self, suite: str) -> None:
        self.suite = suite

    def recognises(self, path: Path) -> Match:
        """Return how sure the suite is that the file is in one of its formats. Used by `assay check`."""
        return Match.NO

    def check(self, path: Path, beside: Path | None = None) -> list[Problem]:
        """Return every problem of a file. `beside` is a second file that it belongs to, such as a pipeline."""
        return []

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return as what a file is checked, what it contains, and every problem, for `assay check`.

        The default calls `check`. A suite with several formats overrides this method, to name the format.
        """
        return FileCheck(kind=f"file of {self.suite}", problems=self.check(path, options.beside))

    def read_results(self, path: Path) -> ImportedRun | None:
        """Return the results in a file or folder of the suite's format, whoever wrote it, for `assay import`.

        Returns None if the path has none. Raises InputError if it has results that cannot be read.
        """
        return named(self.reader)(path) if self.reader else None

    def exporter(self) -> Exporter | None:
        """Return the exporter that writes runs in the suite's own format, for `assay export`; None if there is none."""
        return named(self.writer)() if self.writer else None

    def schemas(self) -> Sequence[FileSchema]:
        """Return the JSON Schemas of the files that the suite reads. `assay schema` lists and prints them."""
        return ()


def named(name: str) -> Any:
    """Import the object that `module:Name` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
