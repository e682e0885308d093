"""Where the rows of an evaluation come from: made live by memories, or recorded in pipeline files.

`live.py` and `recorded.py` have one source each. The suite asks its source for everything that differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.connect import Role
from assay.core.protocols import Solver
from assay.core.suite import CaseContent, CaseResult, PlannedCalls, Row, Rows
from assay.core.types import Record
from assay.suites.memory_eval.rows import AnswerRow, SampleRows


class Baseline(NamedTuple):
    """A memory as outputs name it."""

    alias: str
    reference: bool = False


class SampleLines(NamedTuple):
    """A sample's rows, and the bytes of their lines in the two pipeline files."""

    rows: SampleRows
    sessions: list[bytes]
    questions: list[bytes]


class RowSource(ABC):
    """All samples with all baselines."""

    writes_pipeline: bool
    """Whether the pipeline files are written, and not read."""
    baselines: dict[str, Baseline]
    folders: dict[str, Path]
    """Where the files of each baseline are."""
    roles: dict[str, Role]
    solver: Solver

    @abstractmethod
    def ask_identity(self) -> dict[str, Any]:
        """What changes replies besides options and data."""

    @abstractmethod
    def data_identity(self) -> Any:
        """The data by content."""

    @property
    @abstractmethod
    def gold_fingerprint(self) -> str:
        """Identifies the gold that answers are held to. Another gold scores again."""

    @property
    def notices(self) -> Sequence[str]:
        """Sentences a person should read before the run starts."""
        return ()

    @abstractmethod
    def rows(self) -> Rows[Any]:
        """The data. Raises InputError before anything is asked."""

    @abstractmethod
    def has(self, row: Row[Any], subject: str) -> bool:
        """Whether this baseline has this row."""

    @abstractmethod
    def total(self) -> int:
        """How many cases there are."""

    @abstractmethod
    def case(self, row: Row[Any], subject: str) -> CaseContent:
        """One sample for one baseline."""

    @abstractmethod
    def sample_rows(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleRows:
        """The rows of a case, from its gold and its records; none of a sample that was not fed to its end."""

    @abstractmethod
    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> Sequence[AnswerRow]:
        """The answers of a case alone, in the same order."""

    @abstractmethod
    def lines(self, result: CaseResult[Any]) -> SampleLines | None:
        """The lines of a case; None of a sample that a memory did not get to its end."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the run's own record says of the data."""

    @abstractmethod
    def planned_calls(self) -> list[PlannedCalls]:
        """What memories and their model would be asked, for `--dry-run`."""
