"""A shard: one of several parts of a run, each made by a start of its own, as by the jobs of a Slurm array.

    shard = Shard.parse("3/16")         # --shard 3/16
    shard.rows_of(10_000)               # 625: rows 2, 18, 34, …, counted from 0

A shard takes every n-th row of the data, with all its subjects. It does not take every n-th case: settings of one
memory share replies within a row, the result files of a pipeline have the variants of a test side by side, and every
shard compares the same subjects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Self

from msgspec import Struct

from assay.core.errors import UsageError

_TEXT = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


class Shard(Struct, frozen=True):
    """Shard `number`, counted from 1, of `count` shards."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the shard that --shard names; None for an empty text, which is the whole run."""
        if not text:
            return None
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"--shard {text}: expected I/N, such as 3/16 for the third of 16 shards")
        number, count = int(match[1]), int(match[2])
        if not 1 <= number <= count:
            advice = (
                f"the first shard is 1/{count}. A Slurm array with --array=1-{count} begins at 1"
                if count
                else "a run has at least one shard"
            )
            raise UsageError(f"--shard {text}: I is a number from 1 to N; {advice}")
        return cls(number, count)

    def rows_of(self, rows: int) -> int:
        """Return how many of so many rows belong to the shard."""
        return len(range(self.number - 1, rows, self.count))

    def skip_others(self, skip: Callable[[int], Any] | None = None) -> Callable[[int], bool]:
        """Return a function that is True for the rows of other shards, and for those that `skip` leaves out."""
        first, count = self.number - 1, self.count
        if skip is None:
            return lambda row: row % count != first
        return lambda row: row % count != first or bool(skip(row))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
