"""Where the rows of an evaluation come from: fed to memories now, or filed by an earlier run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from assay.core.protocols import Solver
from assay.core.types import Case, Record
from assay.suites.memory_eval.building import Rows
from assay.suites.memory_eval.points import Answer


class Baseline(NamedTuple):
    """A memory as outputs name it."""

    alias: str
    reference: bool = False


class RowsOf(Protocol):
    """Knows the lines of one sample."""

    def rows(self, records: Sequence[Record]) -> Rows:
        """In the order of the files."""
        ...

    def is_there(self, records: Sequence[Record]) -> bool:
        """Whether there are any."""
        ...

    def lines(self, rows: Rows) -> tuple[list[bytes], list[bytes]]:
        """The rows as they are written, sessions and questions."""
        ...

    def answers(self, records: Sequence[Record]) -> Iterable[Answer]:
        """What was answered, in the same order."""
        ...


class Entry(Struct, frozen=True):
    """One sample with one memory."""

    index: int
    key: str
    baseline: str
    label: str
    gold: RowsOf


class Origin(Protocol):
    """All samples with all baselines.

    `alone`: no other run may write to its folder. `writes`: the pipeline files are written too.
    """

    alone: bool
    writes: bool
    baselines: dict[str, Baseline]
    ask: dict[str, Any]
    gold: str
    roles: dict[str, Any]
    needs: frozenset[str]
    total: int

    @property
    def solver(self) -> Solver:
        """How one sample runs."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """For the run's own record."""
        ...

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """The cases that are not skipped."""
        ...

    def entries(self) -> Iterator[Entry]:
        """All of them, in order."""
        ...

    def folders(self, output: Path) -> dict[str, Path]:
        """Where the files of each baseline are."""
        ...
