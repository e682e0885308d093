"""The interface between the suite and the source of its samples.

`LiveSource` (`live.py`) runs samples through memories. `RecordedSource` (`recorded.py`) reads pipeline files. The suite
calls its source for everything that differs between the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.protocols import Solver
from assay.core.roles import Role
from assay.core.suite import CaseContent, PlannedCalls, Row, Rows
from assay.core.types import End, Record
from assay.suites.memory.eval.result_lines import SampleAnswer, SampleResults


class MemoryInfo(NamedTuple):
    """How the outputs name a memory. `--baseline` and keys of files have the word of the format for a memory, baseline.

    `reference` is True for a memory that only serves as a reference, such as `oracle`. Repeats of a memory share
    `group`; empty means the name itself.
    """

    alias: str
    reference: bool = False
    group: str = ""


class SampleLines(NamedTuple):
    """The results of a sample, and the bytes of their lines in `pipeline_sessions.jsonl` and `pipeline_qa.jsonl`."""

    results: SampleResults
    sessions: list[bytes]
    questions: list[bytes]


class SampleSource(ABC):
    """All samples of a run, each with all memories. A memory is the subject of a case."""

    writes_pipeline: bool
    """Whether the end of this run writes the pipeline files. A run that judges finished files leaves them alone."""
    subjects: dict[str, MemoryInfo]
    folders: dict[str, Path]
    """The folder with the files of each memory."""
    roles: dict[str, Role]
    solver: Solver

    @abstractmethod
    def ask_identity(self) -> dict[str, Any]:
        """Return everything besides options and data that affects replies. A change starts another run."""

    def reuse_identity(self) -> Any:
        """Return what other runs must share for their replies to be taken. The default None takes none."""
        return None

    @abstractmethod
    def data_identity(self) -> Any:
        """Return a value that identifies the data, such as a fingerprint. A change starts another run."""

    @property
    @abstractmethod
    def gold_fingerprint(self) -> str:
        """Fingerprint of the gold (points, reference answers, evidence). If it changes, replies are scored again."""

    @property
    def notices(self) -> Sequence[str]:
        """Warnings to print before the run starts."""
        return ()

    @abstractmethod
    def rows(self) -> Rows[Any]:
        """Return the samples. Raises InputError for bad data, before the first request."""

    @abstractmethod
    def has(self, row: Row[Any], subject: str) -> bool:
        """Return False if the memory `subject` has no data for this sample. The pair is then not a case."""

    @abstractmethod
    def total(self) -> int:
        """Return the number of cases."""

    @abstractmethod
    def case(self, row: Row[Any], subject: str) -> CaseContent:
        """Return the case for one sample and the memory `subject`: its inputs and its gold."""

    @abstractmethod
    def sample_results(self, gold: Any, subject: str, records: Sequence[Record]) -> SampleResults:
        """Build the results of a case from its gold and its records. A failed sample has none."""

    @abstractmethod
    def answers(self, gold: Any, subject: str, records: Sequence[Record]) -> Sequence[SampleAnswer]:
        """Return only the answers of a case, in the order of its lines."""

    @abstractmethod
    def lines(self, sample: Any, subject: str, end: End | None, records: Sequence[Record]) -> SampleLines | None:
        """Return the lines of a case for the pipeline files; None for a sample that failed. `sample` is its row."""

    @abstractmethod
    def judged_kinds(self) -> set[str]:
        """Return the kinds of question that the judge is asked about the data."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return sizes and names for `run.json` and --dry-run."""

    @abstractmethod
    def planned_calls(self) -> list[PlannedCalls]:
        """Return the planned calls of memories and of the answering model, for --dry-run."""
