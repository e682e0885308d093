"""What was measured, against its limit, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Figure(NamedTuple):
    """One number. Without a limit it is told for information; an exact one must be equal to its limit."""

    name: str
    value: float
    limit: float | None = None
    unit: str = ""
    note: str = ""
    exact: bool = False

    @property
    def reached(self) -> bool:
        """Whether the number is as it should be."""
        if self.limit is None:
            return True
        return self.value == self.limit if self.exact else self.value <= self.limit

    def cells(self, *, judged: bool) -> tuple[str, str, str, str, str]:
        """The row of a table. Where the sizes are small, only what is exact is judged."""
        limit = "" if self.limit is None else f"{'=' if self.exact else '<='} {self.limit:g}{self._unit}"
        verdict = "ok" if self.reached else "NOT REACHED"
        if self.limit is None or not (judged or self.exact):
            verdict = ""
        return self.name, f"{_rounded(self.value)}{self._unit}", limit, verdict, self.note

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""


def _rounded(value: float) -> str:
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def failed(figures: Iterable[Figure], *, judged: bool) -> list[Figure]:
    """The figures that are not as they should be."""
    return [figure for figure in figures if not figure.reached and (judged or figure.exact)]


def plain_table(figures: list[Figure], *, judged: bool) -> str:
    """For the terminal."""
    rows = [("figure", "value", "limit", "", "from"), *(figure.cells(judged=judged) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join(map(str.ljust, row, [*widths, 0])).rstrip() for row in rows)


def markdown_table(figures: list[Figure], *, judged: bool) -> str:
    """For RESULTS.md."""
    rows = [("figure", "value", "limit", "", "from"), ("---",) * 5]
    rows += [figure.cells(judged=judged) for figure in figures]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
